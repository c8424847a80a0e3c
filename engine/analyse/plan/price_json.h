// The price of an entry's loss in the planner table's JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "model/words/loss_price.h"

namespace versieve::engine {

// Null where nothing was measured: never zero.
nlohmann::ordered_json price_json(const LossPrice& price);
// Of an entry with the keys `price` and `price_unmeasured`; without them what the strategy itself
// says. Throws Error(kBadInput), or the library's exception for a key that is missing or of another
// type.
LossPrice read_price(const nlohmann::json& entry, const Strategy& strategy);

}  // namespace versieve::engine
