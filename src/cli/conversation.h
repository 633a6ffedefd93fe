// What was said so far, as chat templates and the files of other programs have it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/output.h"

namespace lockstep {

// A system message at most, then messages of user and assistant: [{"role": "user", "content": "..."}, ...].
class Conversation {
 public:
  // Empty: there is none.
  void set_system(std::string_view text);
  std::string system() const;  // as JSON where it is a list of parts

  void add_user(std::string_view text);
  // `reasoning`: what the model thought before, which templates leave out of later prompts or not, as they like.
  void add_answer(std::string_view text, std::string_view reasoning);
  // The answer at the end is forgotten; false when there is no message of the user's that it could answer again.
  bool drop_last_answer();
  // All but the system message is forgotten.
  void clear();

  const Json& messages() const { return messages_; }

  // {"messages": [...]}. Throws Error(Io).
  void save(const std::string& path) const;
  // Replaces everything; on an error nothing. Takes a bare list of messages too. Throws Error(NotFound | Io | Malformed
  // | DoesNotFit) that names the file, the message and its field.
  void load(const std::string& path);

 private:
  bool has_system() const;
  Json messages_ = Json::array();
};

}  // namespace lockstep
