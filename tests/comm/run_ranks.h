// Runs one function as every rank of a local group, each on its own thread.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/comm.h"

namespace lockstep::test {

// Many ranks share few processors here, and a loaded machine may leave a thread waiting for long.
inline LocalGroupOptions patient_options() {
  LocalGroupOptions options;
  options.spin.spins = 100;
  options.stall = std::chrono::minutes(2);
  options.check = true;
  return options;
}

// Rethrows the failure that came first; it has ended the group, so no thread is left waiting.
template <class Function>
void run_ranks(int size, const LocalGroupOptions& options, const Function& function) {
  const auto groups = make_local_group(size, options);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (const auto& group : groups) {
    threads.emplace_back([&, end = group.get()] {
      try {
        function(*end);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        end->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

// What each rank's function threw: the message of its Error(RankFailed), "" when it returned.
template <class Function>
std::vector<std::string> failures_of(int size, const LocalGroupOptions& options, const Function& function) {
  std::vector<std::string> messages(static_cast<size_t>(size));
  run_ranks(size, options, [&](Group& group) {
    try {
      function(group);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::RankFailed) throw;
      messages[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  return messages;
}

}  // namespace lockstep::test
