// What users did: lines "user item", and how they are split for training, validation and test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace example {

// The items of each user, oldest first.
struct Actions {
  std::vector<std::vector<std::int64_t>> users;
  std::int64_t items = 0;  // the greatest item; items are 1 .. items
};

// A text file of lines "user item" in which each user's lines stand in the order of time, or the directory that holds
// Video.txt.
Actions read_actions(const std::filesystem::path& data);

// SASRec's split: a user's last item is the test's, the one before it the validation's, all others are for training. A
// user with fewer than 3 actions is for training alone.
struct Split {
  struct Question {
    std::vector<std::int64_t> history;  // all of the user's items before the answer
    std::int64_t answer = 0;
  };
  std::vector<std::vector<std::int64_t>> training;  // a user's items, oldest first
  std::vector<Question> validation;
  std::vector<Question> test;
  std::int64_t items = 0;
  std::vector<std::int64_t> counts;  // (items + 1) how often the item occurs in training
};
Split split_actions(const Actions& actions);

}  // namespace example
