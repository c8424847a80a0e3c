#include "kernels/cpu.h"

#include <algorithm>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "kernels/common/small_work.h"
#include "kernels/spec_sample/categorical.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// What the samples of one call share.
struct TreeLaws {
  std::vector<std::vector<double>> law;             // softmax of each node's row
  std::vector<std::vector<std::int64_t>> children;  // of each node, ascending
};

template <class T>
TreeLaws tree_laws(const TreeSampleParams<T>& p) {
  TreeLaws laws;
  laws.children.resize(static_cast<std::size_t>(p.num_nodes));
  for (std::int64_t i = 0; i < p.num_nodes; ++i) {
    laws.law.push_back(
        softmax_row(p.target_logits + i * p.vocab, p.vocab, p.temperature, p.truncation));
    if (i > 0) {
      VERSIEVE_ASSERT(p.parent[i] >= 0 && p.parent[i] < i, "a parent stands before its child");
      laws.children[static_cast<std::size_t>(p.parent[i])].push_back(i);
    }
  }
  return laws;
}

// tau of each child of `node`, given that its earlier siblings were rejected; returns what is left
// of the node's law after all of them.
template <class T>
std::vector<double> test_children(const TreeSampleParams<T>& p, const TreeLaws& laws,
                                  std::int64_t sample, std::int64_t node) {
  std::vector<double> weights = laws.law[static_cast<std::size_t>(node)];
  for (const std::int64_t child : laws.children[static_cast<std::size_t>(node)]) {
    const std::int32_t token = p.token[sample * p.num_nodes + child];
    VERSIEVE_ASSERT(token >= 0 && token < p.vocab, "a proposed token is in the vocabulary");
    double& weight = weights[static_cast<std::size_t>(token)];
    const double tau = weight > 0.0 ? weight / sum_of(weights) : 0.0;
    p.tau[sample * p.num_nodes + child] = static_cast<SumOf<T>>(tau);
    weight = 0.0;
  }
  return weights;
}

// The first child of `node` whose test passes, or -1.
template <class T>
std::int64_t accepted_child(const TreeSampleParams<T>& p, const TreeLaws& laws, std::int64_t sample,
                            std::int64_t node) {
  for (const std::int64_t child : laws.children[static_cast<std::size_t>(node)]) {
    const SumOf<T> tau = p.tau[sample * p.num_nodes + child];
    if (tau > 0 && p.uniforms[sample * p.num_nodes + child - 1] <= tau) {
      return child;
    }
  }
  return -1;
}

template <class T>
void sample_tree(const TreeSampleParams<T>& p, const TreeLaws& laws, std::int64_t sample) {
  const std::int64_t first = sample * p.num_nodes;
  std::fill_n(p.tokens + first, p.num_nodes, -1);
  std::fill_n(p.path + first, p.num_nodes, -1);
  p.tau[first] = 1;
  for (std::int64_t i = 0; i < p.num_nodes; ++i) {
    if (!laws.children[static_cast<std::size_t>(i)].empty()) {
      test_children(p, laws, sample, i);
    }
  }
  std::int64_t node = 0;
  std::int64_t accepted = 0;
  for (std::int64_t child = accepted_child(p, laws, sample, 0); child >= 0;
       child = accepted_child(p, laws, sample, node)) {
    p.tokens[first + accepted] = p.token[first + child];
    p.path[first + accepted] = static_cast<std::int32_t>(child);
    ++accepted;
    node = child;
  }
  const double u = static_cast<double>(p.uniforms[first + p.num_nodes - 1]);
  std::int32_t last = draw(test_children(p, laws, sample, node), u);
  if (last < 0) {  // every token with mass was proposed and rejected
    last = draw(laws.law[static_cast<std::size_t>(node)], u);
  }
  p.tokens[first + accepted] = last;
  p.accepted[sample] = static_cast<std::int32_t>(accepted);
}

}  // namespace

template <class T>
void tree_sample_cpu(const TreeSampleParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.num_nodes >= 1 && p.vocab >= 1, "a tree has a root");
  const TreeLaws laws = tree_laws(p);
  parallel_for(p.samples, p.samples * p.num_nodes * p.vocab < kSmallElements ? 1 : threads,
               [&](std::int64_t sample) { sample_tree(p, laws, sample); });
}

template void tree_sample_cpu<double>(const TreeSampleParams<double>&, int);
template void tree_sample_cpu<float>(const TreeSampleParams<float>&, int);
template void tree_sample_cpu<Bf16>(const TreeSampleParams<Bf16>&, int);
template void tree_sample_cpu<F16>(const TreeSampleParams<F16>&, int);

}  // namespace versieve::kernels
