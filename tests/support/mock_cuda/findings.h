// What broke a rule, each sentence once with how often it came.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/mock_cuda/mock_cuda.h"

namespace versieve::mock_cuda {

// A word of a kernel's parameters. Bytes that nobody wrote, between fields or behind the last, may
// hold an old pointer or half of one: a word is a pointer if it pointed to memory that was there,
// and never was anything but a pointer or null.
struct ParameterWord {
  bool was_live = false, was_no_pointer = false;

  bool is_pointer() const { return was_live && !was_no_pointer; }
};

class Findings {
 public:
  // `word`: it counts if that is a pointer, as far as is known when findings are taken.
  void add(Rule rule, const std::string& sentence, const ParameterWord* word = nullptr) {
    const auto [at, is_new] = index_.try_emplace(sentence, found_.size());
    if (is_new) {
      found_.push_back({{rule, sentence, 1}, word});
    } else {
      ++found_[at->second].finding.times;
    }
  }
  std::vector<Finding> take() {
    std::vector<Finding> taken;
    for (Found& found : found_) {
      if (found.word == nullptr || found.word->is_pointer()) {
        taken.push_back(std::move(found.finding));
      }
    }
    index_.clear();
    found_.clear();
    return taken;
  }

 private:
  struct Found {
    Finding finding;
    const ParameterWord* word = nullptr;
  };
  std::vector<Found> found_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace versieve::mock_cuda
