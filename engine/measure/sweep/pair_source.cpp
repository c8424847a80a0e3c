#include "engine/measure/sweep/pair_source.h"

#include <nlohmann/json.hpp>

#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace versieve::engine {

std::string pair_configuration(const PairSource& pair) {
  nlohmann::json kept = {{"name", pair.id.name},
                         {"sha256", pair.id.sha256},
                         {"config", read_json_object(pair.model / "config.json")}};
  if (const std::filesystem::path draft = pair.model / "draft"; is_there(draft)) {
    kept["draft_config"] = read_json_object(draft / "config.json");
  }
  return kept.dump();
}

std::string other_pair_because(const PointKey& key, const PairSource& pair) {
  return key.model == pair.id.name && key.pair == pair.id.sha256
             ? std::string()
             : "the point is of the trained pair " + text_of(PairId{key.model, key.pair}) +
                   ", and the one at hand is " + text_of(pair.id);
}

std::string no_text_because(const PointKey& key) {
  return "no " + key.split + " prompt of regime '" + key.regime + "' is as long as " +
         std::to_string(key.context_len) + " tokens and a continuation";
}

}  // namespace versieve::engine
