// What generated texts say of the tokens that a step yields, text by text.
#pragma once

#include <string>

#include "engine/run/speculate/generate.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// An answer that ends with its first token has no step.
void add_generated(const std::string& text, const Generation& run, AcceptanceMeasurement& sum);
// Means over all that was added.
void finish_generated(AcceptanceMeasurement& sum);

}  // namespace versieve::engine
