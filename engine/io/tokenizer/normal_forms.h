// Unicode's normal forms as Hugging Face's `tokenizers` computes them: those of Unicode 9, so that
// later characters stay as they are.
#pragma once

#include <string>
#include <string_view>

namespace versieve::engine {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// REQUIRES: whole UTF-8.
std::string normal_form(std::string_view text, NormalForm form);

}  // namespace versieve::engine
