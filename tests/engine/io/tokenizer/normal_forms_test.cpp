// Normal forms as the package `tokenizers` computes them.
#include "engine/io/tokenizer/normal_forms.h"

#include <catch2/catch.hpp>

using namespace versieve::engine;

TEST_CASE("ASCII and what is composed already stay, marks join the letter before them") {
  CHECK(normal_form("", NormalForm::kNfc) == "");
  CHECK(normal_form("plain ASCII\n", NormalForm::kNfkd) == "plain ASCII\n");
  CHECK(normal_form("xcafe\u0301 e\u0301", NormalForm::kNfc) == "xcaf\u00e9 \u00e9");
  CHECK(normal_form("\u00e9a", NormalForm::kNfd) == "e\u0301a");
  CHECK(normal_form("q\u0307\u0323x", NormalForm::kNfc) == "q\u0323\u0307x");
  CHECK(normal_form("\u1112\u1161\u11ab", NormalForm::kNfc) == "\ud55c");
  CHECK(normal_form("\ufb01 \u212b\uff11", NormalForm::kNfkc) == "fi \u00c51");
  CHECK(normal_form("\ufb01 \u212b", NormalForm::kNfc) == "\ufb01 \u00c5");
}

TEST_CASE("characters assigned after Unicode 9 are moved, joined and taken apart by no form") {
  CHECK(normal_form("\u32ff", NormalForm::kNfkc) == "\u32ff");
  CHECK(normal_form("\u32fe", NormalForm::kNfkc) == "\u30f2");  // its neighbour is of Unicode 1
  CHECK(normal_form("a\u0345\u0898", NormalForm::kNfc) == "a\u0345\u0898");
  CHECK(normal_form("\U00011935\U00011930", NormalForm::kNfc) == "\U00011935\U00011930");
  CHECK(normal_form("\U00011938", NormalForm::kNfd) == "\U00011938");
}

TEST_CASE("U+11A7 is no trailing consonant and joins nothing") {
  CHECK(normal_form("\ubdb8\u11a7", NormalForm::kNfc) == "\ubdb8\u11a7");
  CHECK(normal_form("\ubdb8\u11a8", NormalForm::kNfc) == "\ubdb9");
}

TEST_CASE("a long row of marks is ordered as a short one is, and at once") {
  std::string marked = "a";
  std::string ordered = "a";
  constexpr int kMarks = 200000;  // the square of it would take minutes
  for (int i = 0; i < kMarks; ++i) {
    marked += "\u0308\u0323";
    ordered += "\u0323";
  }
  for (int i = 0; i < kMarks; ++i) {
    ordered += "\u0308";
  }
  CHECK(normal_form(marked, NormalForm::kNfd) == ordered);
  CHECK(normal_form(marked, NormalForm::kNfc) == "\u1ea1" + ordered.substr(3));
}
