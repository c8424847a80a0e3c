#include "engine/analyse/plan/given_systems.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr SystemOption kOptions[] = {
    {"--resa-block-size", &GivenSystems::resa_block_size, "ReSA b",
     "tokens of a block of ReSA, one or more with commas, as 16,32; 16, 32 and 64 if left out"},
    {"--resa-ratio", &GivenSystems::resa_ratio, "ReSA p",
     "share of the blocks that a step of ReSA reads, one or more with commas, over 0 to 1; 0.02, "
     "0.05, 0.1 and 0.2 if left out"},
    {"--resa-rectify", &GivenSystems::resa_rectify, "ReSA f",
     "steps of ReSA between two dense passes, one or more with commas; 16, 32, 64 and 128 if left "
     "out. Class Sparse never rectifies, whatever stands here"},
    {"--specattn-mass", &GivenSystems::specattn_mass, "SpecAttn p",
     "share of the attention that the tokens SpecAttn chooses carry, one or more with commas, over "
     "0 to 1; 0.9, 0.95, 0.97 and 0.99 if left out"}};

constexpr std::int64_t kMostTokens = 262144;  // of a block, and of a period: a context's

[[noreturn]] void refuse(const SystemOption& option, std::string_view part, const char* takes) {
  throw Error(ExitCode::kUsage, option.flag + (" (" + std::string(option.label)) + ") takes " +
                                    takes + ", one or more with commas, not '" + std::string(part) +
                                    "'");
}

bool is_setting(std::int64_t count) {
  return count >= 1 && count <= kMostTokens;
}
bool is_setting(double share) {
  return share > 0.0 && share <= 1.0;  // false of what is no number
}

// Ascending, each once; the whole of a part must be the number.
template <class Number>
void take(const SystemOption& option, const GivenSystems& given, const char* takes,
          std::vector<Number>& settings) {
  if (!(given.*option.given)) {
    return;
  }
  settings.clear();
  std::string_view rest = *(given.*option.given);
  for (bool more = true; more;) {
    const std::size_t cut = rest.find(',');
    const std::string_view part = rest.substr(0, cut);
    Number value{};
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (status != std::errc() || end != part.data() + part.size() || !is_setting(value)) {
      refuse(option, part, takes);
    }
    settings.push_back(value);
    more = cut != std::string_view::npos;
    rest.remove_prefix(more ? cut + 1 : rest.size());
  }
  std::sort(settings.begin(), settings.end());
  settings.erase(std::unique(settings.begin(), settings.end()), settings.end());
}

}  // namespace

std::span<const SystemOption> system_options() {
  return kOptions;
}

SystemSettings planned_systems(const GivenSystems& given) {
  constexpr const char* kTokens = "tokens, 1 to 262144";
  constexpr const char* kSteps = "steps, 1 to 262144";
  constexpr const char* kShare = "a share over 0, to 1";
  SystemSettings settings;
  take(kOptions[0], given, kTokens, settings.resa_key_blocks);
  take(kOptions[1], given, kShare, settings.resa_active_ratios);
  take(kOptions[2], given, kSteps, settings.resa_periods);
  take(kOptions[3], given, kShare, settings.specattn_shares);
  return settings;
}

}  // namespace versieve::engine
