// Commands on several ranks: what goes wrong is told once.
#pragma once

#include <exception>
#include <functional>

#include "headway/communicator.h"

namespace cli {

// Ends the program with this code and no word: another rank says why.
class ToldElsewhere : public std::exception {
 public:
  explicit ToldElsewhere(int code) : code_(code) {}
  int code() const { return code_; }
  const char* what() const noexcept override { return "another rank has failed"; }

 private:
  int code_;
};

// All ranks that mpirun or srun started; one alone without them.
headway::Communicator open_world();

// Runs `work` on every rank. Where it throws on some, rank 0 throws what the first of them threw, with that rank's
// number where it is not its own, and the others throw ToldElsewhere.
void on_every_rank(const headway::Communicator& world, const std::function<void()>& work);

}  // namespace cli
