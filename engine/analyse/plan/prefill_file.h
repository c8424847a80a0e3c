// How long prompts take to be read, from what `versieve bench prefill --out` writes.
#pragma once

#include <optional>
#include <string>

#include "model/cost/prompt_times.h"
#include "model/words/llm_shape.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// Of prompts in pieces of as many tokens as a batch's step reads of them there
// (engine/run/batch/prompt_rows.h). Where the file has no forwards of so many, those of the nearest
// number, at an assumed ratio with an error of its own, and PromptTimes::warning says so. Throws
// Error(kBadInput) naming what is wrong with the file.
PromptTimes read_prompt_times(const std::string& path);
// Why they say nothing, as the end of a sentence that begins with what they are; or an empty text.
std::string unsound_because(const PromptTimes& times);
// Adds to PromptTimes::warning: where the prompts were measured before `newest`, the newest run of
// the points that a plan's steps are priced by, or where nobody knows. No run: the fit is of a
// file, and only what they say of themselves counts.
void date_against(const std::optional<RunRecord>& newest, PromptTimes& times);
// "NVIDIA H200 (revision abc1234, 2026-11-28)".
std::string origin_text(const PromptTimes& times);
// Throws Error(kUsage) unless they are of that target on that machine of the catalogue.
void require_prompts_of(const PromptTimes& times, const LlmShape& target,
                        const std::string& hardware_key);

}  // namespace versieve::engine
