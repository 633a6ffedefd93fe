// The program: everything is behind the door of cli/.
#include "cli/cli.h"

int main(int argc, char** argv) {
  return lockstep::run_command_line(argc, argv);
}
