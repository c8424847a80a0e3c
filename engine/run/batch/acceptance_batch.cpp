#include "engine/run/batch/acceptance_batch.h"

#include <algorithm>

#include "engine/run/model/append.h"

namespace versieve::engine {
namespace {

bool tests_draws(const AcceptanceOptions& options) {
  return options.temperature > 0.0 && options.sampling != SamplingAlgorithm::kCoupled;
}

template <class T>
bool any_draws(std::span<const VerifiedTree<T>> trees) {
  return std::any_of(trees.begin(), trees.end(), [](const VerifiedTree<T>& v) {
    return v.options.temperature > 0.0 && !tests_draws(v.options);
  });
}

// What tested trees ask for in all.
struct Tested {
  std::int64_t trees = 0, nodes = 0, answers = 0;
};

template <class T>
Tested count_tested(std::span<const VerifiedTree<T>> trees) {
  Tested all;
  for (const VerifiedTree<T>& v : trees) {
    if (tests_draws(v.options)) {
      ++all.trees;
      all.nodes += v.tree->size();
      all.answers += answer_size(v.tree->size());
    }
  }
  return all;
}

}  // namespace

template <class T>
typename Acceptor<T>::Verified AcceptanceBatch<T>::verified_of(const VerifiedTree<T>& tree,
                                                               const Rows& rows) {
  return {.tree = *tree.tree,
          .position = tree.position,
          .vocab = rows.vocab,
          .logits = rows.logits + tree.first_row * rows.vocab,
          .sampled_logits = tree.sampled_logits};
}

template <class T>
typename AcceptanceBatch<T>::Places AcceptanceBatch<T>::upload(
    const Rows& rows, std::span<const VerifiedTree<T>> trees) {
  const std::size_t count = any_draws(trees) ? static_cast<std::size_t>(rows.rows) : 0;
  std::vector<kernels::RowDraw> draws(count);
  std::vector<std::int32_t> positions(count), parents, tokens;
  std::vector<Sum> uniforms;
  for (const VerifiedTree<T>& v : trees) {
    if (tests_draws(v.options)) {
      append(uniforms, test_uniforms<T>(verified_of(v, rows), v.options.seed));
      append(parents, v.tree->parent);
      append(tokens, v.tree->token);
    } else if (v.options.temperature > 0.0) {
      for (std::size_t i = 0; i < v.tree->depth.size(); ++i) {
        const std::size_t row = static_cast<std::size_t>(v.first_row) + i;
        draws[row] = {v.options.seed, v.options.temperature};
        positions[row] = static_cast<std::int32_t>(v.position + v.tree->depth[i]);
      }
    }
  }
  PackedInts packed;
  const Places places{.draws = packed.add(draws),
                      .positions = packed.add(positions),
                      .uniforms = packed.add(uniforms),
                      .parents = packed.add(parents),
                      .tokens = packed.add(tokens)};
  uploaded_ = staged_.upload(*ops_, packed.ints());
  return places;
}

template <class T>
void AcceptanceBatch<T>::list_best(const Rows& rows, std::span<const VerifiedTree<T>> trees,
                                   const Places& places) {
  if (any_draws(trees)) {
    kernels::gumbel_rows<T>(*ops_,
                            {.rows = rows.rows,
                             .vocab = rows.vocab,
                             .k = 1,
                             .draw = PackedInts::at<kernels::RowDraw>(uploaded_, places.draws),
                             .logits = rows.logits,
                             .position = uploaded_ + places.positions,
                             .index = answers_.data()});
  } else {
    ops_->top_logits({.rows = rows.rows,
                      .vocab = rows.vocab,
                      .k = 1,
                      .logits = rows.logits,
                      .index = answers_.data()});
  }
}

template <class T>
void AcceptanceBatch<T>::sample(const Rows& rows, std::span<const VerifiedTree<T>> trees,
                                const Places& places) {
  std::vector<kernels::SpecSampleParams<T>> chains;
  std::vector<kernels::TreeSampleParams<T>> others;
  std::int64_t node = 0;
  std::int32_t* answer = answers_.data() + rows.rows;
  for (const VerifiedTree<T>& v : trees) {
    if (!tests_draws(v.options)) {
      continue;
    }
    const typename Acceptor<T>::Verified verified = verified_of(v, rows);
    const SamplerLists<T> lists{.parent = uploaded_ + places.parents + node,
                                .token = uploaded_ + places.tokens + node,
                                .uniforms = PackedInts::at<Sum>(uploaded_, places.uniforms) + node,
                                .answer = answer,
                                .tau = tau_.data() + node};
    if (v.sampled_logits != nullptr) {
      chains.push_back(chain_call<T>(verified, v.options, lists));
    } else {
      others.push_back(tree_call<T>(verified, v.options, lists));
    }
    node += v.tree->size();
    answer += answer_size(v.tree->size());
  }
  kernels::spec_sample_together<T>(*ops_, chains);
  kernels::tree_sample_together<T>(*ops_, others);
}

template <class T>
std::vector<Acceptance> AcceptanceBatch<T>::accept(const T* logits, std::int64_t rows,
                                                   std::int64_t vocab,
                                                   std::span<const VerifiedTree<T>> trees) {
  const Rows all{.logits = logits, .rows = rows, .vocab = vocab};
  const Tested tested = count_tested(trees);
  std::vector<std::int32_t> answers(static_cast<std::size_t>(rows + tested.answers));
  ensure_count(*ops_, answers_, rows + tested.answers);
  ensure_count(*ops_, tau_, tested.nodes);
  const Places places = upload(all, trees);
  if (tested.trees < static_cast<std::int64_t>(trees.size())) {
    list_best(all, trees, places);
  }
  sample(all, trees, places);
  ops_->download(answers.data(), answers_.data(), answers.size() * sizeof(std::int32_t));
  std::span<const std::int32_t> answer = std::span(answers).subspan(static_cast<std::size_t>(rows));
  std::vector<Acceptance> out;
  for (const VerifiedTree<T>& v : trees) {
    if (tests_draws(v.options)) {
      out.push_back(v.sampled_logits != nullptr ? chain_answer(answer)
                                                : tree_answer(answer, v.tree->size()));
      answer = answer.subspan(static_cast<std::size_t>(answer_size(v.tree->size())));
    } else {
      out.push_back(
          follow(*v.tree, std::span(answers).subspan(static_cast<std::size_t>(v.first_row))));
    }
    if (v.forced_yield > 0) {
      out.back().path = path_of_yield(*v.tree, v.forced_yield);
    }
  }
  return out;
}

template class AcceptanceBatch<double>;
template class AcceptanceBatch<float>;
template class AcceptanceBatch<Bf16>;

}  // namespace versieve::engine
