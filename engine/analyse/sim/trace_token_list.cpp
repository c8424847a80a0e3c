// token_list: a thread a chunk of the mask; kept chunks of each CTA are counted, then each CTA adds
// up those before it and writes its tokens.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/dense_traces.h"
#include "engine/measure/sweep/synthetic_draft.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kInt = 4;
constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kCtaTokens = kThreads * kTokensTogether;

class TokenListTrace final : public LaunchTrace {
 public:
  TokenListTrace(const DenseCase& a, bool writes)
      : LaunchTrace({.path = "token_list",
                     .ctas = (a.context_len + kCtaTokens - 1) / kCtaTokens,
                     .threads = kThreads,
                     .registers = 32}),
        a_(a),
        writes_(writes) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t first = cta * kCtaTokens;
    const std::int64_t end = std::min(a_.context_len, first + kCtaTokens);
    if (step == 0) {
      if (writes_) {
        append_read(a_.at.list_counts, cta * kInt, out);
      }
      append_read(a_.at.mask + static_cast<std::uint64_t>(first * kInt), (end - first) * kInt, out);
      return true;
    }
    if (step == 1 && !writes_) {
      append_write(a_.at.list_counts + static_cast<std::uint64_t>(cta * kInt), kInt, out);
    } else if (step == 1) {
      const auto from = std::lower_bound(a_.tokens.begin(), a_.tokens.end(), first);
      const auto to = std::lower_bound(from, a_.tokens.end(), end);
      append_write(a_.at.tokens + static_cast<std::uint64_t>((from - a_.tokens.begin()) * kInt),
                   (to - from) * kInt, out);
      if (end == a_.context_len) {
        append_write(a_.at.list_counts + static_cast<std::uint64_t>(shape().ctas * kInt), kInt,
                     out);
      }
    }
    return step == 1;
  }

 private:
  DenseCase a_;
  bool writes_;
};

}  // namespace

void append_token_list(const DenseCase& a, LaunchSequence& out) {
  out.push_back(std::make_unique<TokenListTrace>(a, false));
  out.push_back(std::make_unique<TokenListTrace>(a, true));
}

}  // namespace versieve::engine
