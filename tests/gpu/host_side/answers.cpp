#include "tests/gpu/host_side/answers.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/draft_tree/params.h"
#include "kernels/draft_tree/together.h"
#include "kernels/ops.h"
#include "kernels/samplers_together.h"
#include "kernels/spec_sample/together.h"
#include "tests/support/mock_cuda/mock_cuda.h"

namespace versieve::test {
namespace {

using mock_cuda::LaunchedKernel;

// Low tokens: any vocabulary has them, and drafts meet the target's now and then.
constexpr std::int32_t kTokens = 3;
std::int32_t any_token() {
  static std::mt19937 random(17);
  return static_cast<std::int32_t>(random() % kTokens);
}

// Params hold pointers and sizes: those of all element types are laid out alike.
template <class Params>
Params params_at(const LaunchedKernel& launch, std::size_t at = 0) {
  Params params;
  std::memcpy(static_cast<void*>(&params), launch.parameters[0].data() + at, sizeof params);
  return params;
}

void list_top(std::int64_t rows, std::int64_t vocab, std::int64_t k, std::int32_t* index,
              float* log_probability) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = any_token();
    for (std::int64_t j = 0; j < k; ++j) {
      index[row * k + j] = static_cast<std::int32_t>((first + j) % vocab);
      if (log_probability != nullptr) {
        log_probability[row * k + j] =
            -0.3F * static_cast<float>(j + 1) - 0.01F * static_cast<float>(any_token());
      }
    }
  }
}

// The one token that follows where nothing was accepted, or one more.
void fill_tokens(std::int32_t* tokens, std::int64_t count) {
  std::fill_n(tokens, count, -1);
  tokens[0] = any_token();
}

void pick_chain(const kernels::SpecSampleParams<float>& p) {
  for (std::int64_t i = 0; i < p.samples * p.batch; ++i) {
    p.accepted[i] = 0;
    fill_tokens(p.tokens + i * (p.gamma + 1), p.gamma + 1);
  }
}

void walk_tree(const kernels::TreeSampleParams<float>& p) {
  for (std::int64_t i = 0; i < p.samples; ++i) {
    p.accepted[i] = 0;
    fill_tokens(p.tokens + i * p.num_nodes, p.num_nodes);
    std::fill_n(p.path + i * p.num_nodes, p.num_nodes, -1);
  }
}

// A launch of up to kMostSampled calls: their settings begin with the call's params, `behind` bytes
// a call lie behind all settings.
template <class Params, class Use>
void for_each_call(const LaunchedKernel& launch, unsigned calls, std::size_t behind,
                   const Use& use) {
  const std::size_t bytes = launch.parameters[0].size() / kernels::kMostSampled - behind;
  for (unsigned i = 0; i < calls; ++i) {
    use(params_at<Params>(launch, i * bytes));
  }
}

void accept_root(const LaunchedKernel& launch) {
  const auto p = params_at<kernels::AcceptTreeParams>(launch);
  for (int slot = 0; slot < kernels::kYieldSlots; ++slot) {
    p.yield[slot].count = 1;
    p.yield[slot].token[0] = any_token();
  }
}

}  // namespace

void answer_host_reads() {
  using Chain = kernels::SpecSampleParams<float>;
  using Tree = kernels::TreeSampleParams<float>;
  for (const char* name :
       {"top_logits_list_kernel", "top_logits_best_kernel", "top_logits_short_kernel"}) {
    mock_cuda::compute(name, [](const LaunchedKernel& launch) {
      const auto p = params_at<kernels::TopLogitsParams<float>>(launch);
      list_top(p.rows, p.vocab, p.k, p.index, p.log_probability);
    });
  }
  mock_cuda::compute("gumbel_best_kernel", [](const LaunchedKernel& launch) {
    const auto p = params_at<kernels::GumbelRowsParams<float>>(launch);
    list_top(p.rows, p.vocab, p.k, p.index, p.log_probability);
  });
  for (const char* name :
       {"spec_pick_kernel", "spec_chain_kernel", "spec_end_kernel", "spec_draw_kernel"}) {
    mock_cuda::compute(name,
                       [](const LaunchedKernel& launch) { pick_chain(params_at<Chain>(launch)); });
  }
  mock_cuda::compute("spec_picks_kernel", [](const LaunchedKernel& launch) {
    for_each_call<Chain>(launch, launch.grid.x, 0, pick_chain);
  });
  for (const char* name : {"tree_sample_kernel", "tree_walk_kernel"}) {
    mock_cuda::compute(name,
                       [](const LaunchedKernel& launch) { walk_tree(params_at<Tree>(launch)); });
  }
  mock_cuda::compute("tree_samples_kernel", [](const LaunchedKernel& launch) {
    for_each_call<Tree>(launch, launch.grid.y, sizeof(int), walk_tree);
  });
  mock_cuda::compute("grow_levels_kernel", [](const LaunchedKernel& launch) {
    for (unsigned i = 0; i < launch.grid.x; ++i) {
      kernels::grow_level_cpu(
          params_at<kernels::LevelGrowth>(launch, i * sizeof(kernels::LevelGrowth)));
    }
  });
  mock_cuda::compute("accept_tree_kernel", accept_root);
}

}  // namespace versieve::test
