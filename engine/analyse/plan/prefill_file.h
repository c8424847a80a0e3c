// How long prompts take to be read, from what `versieve bench prefill --out` writes.
#pragma once

#include <string>

#include "model/cost/prompt_times.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

// Of the tokens in one forward by which the longest prompt is read fastest. Throws Error(kBadInput)
// naming what is wrong with the file.
PromptTimes read_prompt_times(const std::string& path);
// Why they say nothing, as the end of a sentence that begins with what they are; or an empty text.
std::string unsound_because(const PromptTimes& times);
// Throws Error(kUsage) unless they are of that target on that machine of the catalogue.
void require_prompts_of(const PromptTimes& times, const LlmShape& target,
                        const std::string& hardware_key);

}  // namespace versieve::engine
