#include "engine/io/prompt/stop_tokens.h"

#include <algorithm>
#include <utility>

#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {

std::vector<std::int32_t> stop_tokens(const std::filesystem::path& model,
                                      std::vector<std::int32_t> known) {
  const std::filesystem::path path = model / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return known;
  }
  const nlohmann::json config = read_json_object(path);
  const nlohmann::json said = config.value("eos_token_id", nlohmann::json());
  const nlohmann::json none = nlohmann::json::array();
  for (const nlohmann::json& id : said.is_array()  ? said
                                  : said.is_null() ? none
                                                   : nlohmann::json::array({said})) {
    if (!id.is_number_integer() || id < -1 || id > INT32_MAX) {
      throw Error(ExitCode::kBadInput, path.string() + ": eos_token_id holds what is no token id");
    }
    const std::int32_t stop = id.get<std::int32_t>();
    if (stop >= 0 && std::find(known.begin(), known.end(), stop) == known.end()) {
      known.push_back(stop);
    }
  }
  return known;
}

}  // namespace versieve::engine
