#include "engine/io/prompt/stop_tokens.h"

#include <algorithm>
#include <utility>

#include "engine/io/config_fields.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {

std::vector<std::int32_t> stop_tokens(const std::filesystem::path& model,
                                      std::vector<std::int32_t> known) {
  const std::filesystem::path path = model / "generation_config.json";
  if (!is_there(path)) {
    return known;
  }
  const nlohmann::json config = read_json_object(path);
  const nlohmann::json said = config.value("eos_token_id", nlohmann::json());
  const nlohmann::json none = nlohmann::json::array();
  for (const nlohmann::json& id : said.is_array()  ? said
                                  : said.is_null() ? none
                                                   : nlohmann::json::array({said})) {
    const std::optional<std::int64_t> whole = whole_number(id);
    if (!whole || *whole < -1 || *whole > INT32_MAX) {
      throw Error(ExitCode::kBadInput, path.string() + ": eos_token_id holds what is no token id");
    }
    const std::int32_t stop = static_cast<std::int32_t>(*whole);
    if (stop >= 0 && std::find(known.begin(), known.end(), stop) == known.end()) {
      known.push_back(stop);
    }
  }
  return known;
}

}  // namespace versieve::engine
