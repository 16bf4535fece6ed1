// What is wrong with the tensors of a file, in one Error.
#pragma once

#include <string>

#include "base/check.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// Kinds of problems, each with all of its tensors.
class TensorProblems {
 public:
  void missing(const std::string& name, const Shape& shape) { add(missing_, name + " " + shape.to_string()); }
  void unexpected(const std::string& name, const Tensor& tensor) { add(unexpected_, name + " " + tensor.describe()); }
  void wrong(const std::string& name, const Tensor& tensor, const std::string& expected) {
    add(wrong_, name + " is " + tensor.describe() + ", expected " + expected);
  }
  void check_none(const std::string& where) const {
    std::string all;
    const auto append = [&](const char* kind, const std::string& names) {
      if (!names.empty()) all += (all.empty() ? "" : "; ") + std::string(kind) + names;
    };
    append("missing: ", missing_);
    append("mis-shaped: ", wrong_);
    append("unexpected: ", unexpected_);
    check(all.empty(), where, ": the tensors are not those of config.json; ", all);
  }

 private:
  static void add(std::string& list, const std::string& text) { list += (list.empty() ? "" : ", ") + text; }
  std::string missing_;
  std::string wrong_;
  std::string unexpected_;
};

}  // namespace headway::inline v0::internal
