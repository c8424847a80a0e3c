// Another engine's speculative sampling of a tree: R draws, each of a path of accepted proposals
// and a last token, against the law that the target's rows and the proposals give (README.md).
#include <algorithm>
#include <map>

#include "engine/io/formatted.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/judge_draws.h"
#include "engine/measure/door/judges.h"
#include "engine/measure/door/sampling.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

using Weights = std::vector<double>;

struct Tree {
  std::int64_t nodes = 0, vocab = 0;
  std::vector<Weights> law;                         // softmax of each node's row
  std::vector<std::vector<std::int64_t>> children;  // of each node, ascending
  std::vector<std::int32_t> proposed;               // [R, N], or [N] of all draws
  bool many = false;

  std::int32_t token(std::int64_t draw, std::int64_t node) const {
    return proposed[static_cast<std::size_t>((many ? draw * nodes : 0) + node)];
  }
};

template <class T>
Tree read_tree(DoorInput& input) {
  Tree out;
  const std::vector<T> target = logits<T>(input, "target_logits", "N,V");
  input.require_at_least("N", 1);
  input.require_at_least("V", 1);
  out.nodes = input.dim("N");
  out.vocab = input.dim("V");
  const std::vector<std::int32_t> parent = input.integers("parent", "N");
  out.children.resize(parent.size());
  if (parent[0] != -1) {
    input.refuse("node 0 must be the root (parent -1)");
  }
  for (std::size_t i = 1; i < parent.size(); ++i) {
    if (parent[i] < 0 || parent[i] >= static_cast<std::int64_t>(i)) {
      input.refuse("parent[" + std::to_string(i) + "] must name an earlier node");
    }
    out.children[static_cast<std::size_t>(parent[i])].push_back(static_cast<std::int64_t>(i));
  }
  out.many = input.rank("tokens") == 2;
  out.proposed = vocabulary_tokens(input, "tokens", out.many ? "R,N" : "N");
  const double heat = temperature(input);
  const kernels::Truncation cuts = truncation(input);
  for (std::int64_t i = 0; i < out.nodes; ++i) {
    out.law.push_back(kernels::softmax_row(target.data() + i * out.vocab, out.vocab, heat, cuts));
  }
  return out;
}

Tree tree_of(DoorInput& input, const DoorRequest& request) {
  switch (request.dtype) {
    case kernels::Dtype::kF64:
      return read_tree<double>(input);
    case kernels::Dtype::kF32:
      return read_tree<float>(input);
    case kernels::Dtype::kF16:
      return read_tree<F16>(input);
    case kernels::Dtype::kBf16:
      break;
  }
  return read_tree<Bf16>(input);
}

bool holds(const std::vector<std::int32_t>& tokens, std::int64_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// Of a row without these tokens: what is left of 1, summed anew where a difference says little.
double weight_left(const Weights& law, const std::vector<std::int32_t>& removed,
                   double difference) {
  constexpr double kLeast = 1e-2;
  if (difference > kLeast) {
    return difference;
  }
  double sum = 0.0;
  for (std::size_t y = 0; y < law.size(); ++y) {
    sum += law[y] > 0.0 && !holds(removed, static_cast<std::int64_t>(y)) ? law[y] : 0.0;
  }
  return sum;
}

// A node's row once its children were tested.
struct Tested {
  std::vector<double> tau;            // of each child, given that those before it were rejected
  std::vector<std::int32_t> removed;  // tokens whose weight is 0 now
  double left = 1.0;                  // weight that stays
};

Tested tested(const Tree& tree, std::int64_t draw, std::int64_t node) {
  Tested out;
  const Weights& law = tree.law[static_cast<std::size_t>(node)];
  for (const std::int64_t child : tree.children[static_cast<std::size_t>(node)]) {
    const std::int32_t token = tree.token(draw, child);
    const double weight = holds(out.removed, token) ? 0.0 : law[static_cast<std::size_t>(token)];
    out.tau.push_back(weight > 0.0 ? std::min(1.0, weight / out.left) : 0.0);
    if (weight > 0.0) {
      out.removed.push_back(token);
      out.left = weight_left(law, out.removed, out.left - weight);
    }
  }
  return out;
}

// What draws should emit: a last token behind a node is of the row without what was removed, or of
// the whole row where nothing was left.
class Expected {
 public:
  explicit Expected(const Tree& tree)
      : tree_(tree), scale_(static_cast<std::size_t>(tree.nodes)), less_(scale_.size()) {}

  void add(std::int64_t draw, double weight) {
    std::vector<double> reached(static_cast<std::size_t>(tree_.nodes));
    reached[0] = weight;
    for (std::int64_t node = 0; node < tree_.nodes; ++node) {
      const double chance = reached[static_cast<std::size_t>(node)];
      if (chance > 0.0) {
        add_node(draw, node, chance, reached);
      }
    }
  }
  double of(std::int64_t node, std::int64_t token) const {
    const double law = tree_.law[static_cast<std::size_t>(node)][static_cast<std::size_t>(token)];
    const double whole = scale_[static_cast<std::size_t>(node)];
    const auto& less = less_[static_cast<std::size_t>(node)];
    const auto found = less.find(token);
    const double scale = found == less.end() ? whole : whole - found->second;
    return law * (scale > kNothing * whole ? scale : 0.0);
  }

 private:
  static constexpr double kNothing = 1e-12;  // of a scale: what rounding leaves of a difference

  void add_node(std::int64_t draw, std::int64_t node, double chance, std::vector<double>& reached) {
    const Tested t = tested(tree_, draw, node);
    double left = chance;
    const std::vector<std::int64_t>& children = tree_.children[static_cast<std::size_t>(node)];
    for (std::size_t i = 0; i < children.size(); ++i) {
      reached[static_cast<std::size_t>(children[i])] = left * t.tau[i];
      left *= 1.0 - t.tau[i];
    }
    const bool is_whole = t.left <= 0.0;
    const double scale = is_whole ? left : left / t.left;
    scale_[static_cast<std::size_t>(node)] += scale;
    for (const std::int32_t token : t.removed) {
      less_[static_cast<std::size_t>(node)][token] += is_whole ? 0.0 : scale;
    }
  }

  const Tree& tree_;
  std::vector<double> scale_;
  std::vector<std::map<std::int64_t, double>> less_;  // [node]: by token, of few
};

// The node behind which a draw's last token stands; -1 with the reason where it cannot be.
std::int64_t last_node(const Tree& tree, std::int64_t draw,
                       const std::vector<std::int32_t>& emitted, std::string& fault) {
  if (emitted.empty()) {
    fault = "emits no token";
    return -1;
  }
  std::int64_t node = 0;
  for (std::size_t i = 0; i + 1 < emitted.size(); ++i) {
    const Tested t = tested(tree, draw, node);
    const std::vector<std::int64_t>& children = tree.children[static_cast<std::size_t>(node)];
    std::size_t child = 0;
    while (child < children.size() && tree.token(draw, children[child]) != emitted[i]) {
      child += 1;
    }
    if (child == children.size() || t.tau[child] <= 0.0) {
      fault = formatted(
          "accepts token %d behind node %lld, %s", emitted[i], static_cast<long long>(node),
          child == children.size() ? "which no child proposes" : "whose probability is 0");
      return -1;
    }
    node = children[child];
  }
  const std::int32_t last = emitted.back();
  if (last < 0 || last >= tree.vocab) {
    fault = formatted("emits token %d, which is not in the vocabulary", last);
    return -1;
  }
  const Tested t = tested(tree, draw, node);
  const double law = tree.law[static_cast<std::size_t>(node)][static_cast<std::size_t>(last)];
  if (law <= 0.0 || (holds(t.removed, last) && t.left > kRounding)) {
    fault = formatted("emits token %d behind node %lld, where its probability is 0", last,
                      static_cast<long long>(node));
    return -1;
  }
  return node;
}

// The nodes that are accepted, where the answers name them.
void check_path(DoorInput& answers, const Draws& draws, const std::vector<std::int64_t>& last) {
  if (!answers.has("path") || answers.rank("path") != 2) {
    return;
  }
  answers.set_dim("draws", draws.count());
  const std::vector<std::int32_t> path = answers.any_integers("path", "draws,width");
  const std::int64_t width = answers.dim("width");
  for (std::int64_t r = 0; r < draws.count(); ++r) {
    const std::int64_t accepted =
        static_cast<std::int64_t>(draws.emitted[static_cast<std::size_t>(r)].size()) - 1;
    const std::int64_t node = last[static_cast<std::size_t>(r)];
    if (node > 0 && path[static_cast<std::size_t>(r * width + accepted - 1)] != node) {
      answers.refuse(formatted(
          "path of draw %lld ends at node %d, its tokens at node %lld", static_cast<long long>(r),
          path[static_cast<std::size_t>(r * width + accepted - 1)], static_cast<long long>(node)));
    }
  }
}

}  // namespace

Judgement judge_tree_sample(DoorInput& input, DoorInput& answers, const DoorRequest& request) {
  const Tree tree = tree_of(input, request);
  const Draws draws = read_draws(answers, tree.nodes);
  if (tree.many && draws.count() != input.dim("R")) {
    answers.refuse(formatted("holds %lld draws, and the inputs %lld",
                             static_cast<long long>(draws.count()),
                             static_cast<long long>(input.dim("R"))));
  }
  DrawTally tally("tree_sample", tree.nodes, tree.vocab);
  Expected expected(tree);
  std::vector<std::int64_t> last;
  for (std::int64_t r = 0; r < draws.count(); ++r) {
    const std::vector<std::int32_t>& emitted = draws.emitted[static_cast<std::size_t>(r)];
    std::string fault;
    last.push_back(last_node(tree, r, emitted, fault));
    if (!fault.empty()) {
      tally.refuse_draw(r, fault);
      continue;
    }
    tally.count({last.back(), emitted.back()});
    if (tree.many) {
      expected.add(r, 1.0);
    }
  }
  if (!tree.many) {
    expected.add(0, static_cast<double>(tally.draws));
  }
  for (std::int64_t node = 0; node < tree.nodes; ++node) {
    for (std::int64_t token = 0; token < tree.vocab; ++token) {
      tally.expected[tally.at(node, token)] = expected.of(node, token);
    }
  }
  check_path(answers, draws, last);
  return judged_draws(tally, are_same_draws(input, request, draws));
}

}  // namespace versieve::engine
