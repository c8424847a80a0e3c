// Texts that a reader must refuse, each with a part of its sentence.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/analyse/import/import_points.h"
#include "tests/support/errors.h"

namespace versieve::test {

struct Refusal {
  std::string text;
  std::string part;  // of the sentence
};

using Reader = engine::ImportedPoints (*)(const engine::ImportText&);

inline engine::ImportedPoints read_with(Reader read, const std::string& text) {
  return read({.file = "its.name", .text = text, .context_len = 2048});
}

inline void check_refusals(Reader read, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const Error error = error_of([&] { read_with(read, refusal.text); });
    CAPTURE(refusal.text, error.what());
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(contains(error.what(), refusal.part));
    CHECK(contains(error.what(), "its.name"));
    CHECK(!contains(error.what(), "\n"));
  }
}

}  // namespace versieve::test
