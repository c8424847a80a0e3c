// Random cases of the samplers. Decisions may differ from the CPU's only where a uniform number
// lies within 1e-4 of what it is compared with; what follows such a decision is not compared.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/spec_sample/categorical.h"
#include "tests/support/door_fuzz_cases.h"
#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

using engine::tensor_of;
using engine::TensorSet;
using Ints = std::vector<std::int32_t>;
using Rng = std::mt19937_64;

constexpr double kNear = 1e-4;

bool rarely(Rng& rng, std::int64_t of) {
  return pick(rng, 0, of - 1) == 0;
}

std::int64_t some_vocab(Rng& rng) {
  static const std::int64_t odd[] = {1, 2, 3, 7, 31, 64, 100, 257, 512, 513};
  static const std::int64_t large[] = {1003, 2048, 4099, 9001};
  return rarely(rng, 10) ? large[pick(rng, 0, 3)]
                         : (rarely(rng, 2) ? odd[pick(rng, 0, 9)] : pick(rng, 1, 200));
}

// Multiples of 1/8 below 16, which bf16 holds; each row has one above -infinity.
std::vector<double> random_logits(Rng& rng, std::int64_t rows, std::int64_t vocab) {
  const std::int64_t spread = rarely(rng, 4) ? 2 : 60;
  const bool forbids = rarely(rng, 3);
  std::vector<double> logits(at(rows * vocab));
  std::generate(logits.begin(), logits.end(), [&] {
    return forbids && rarely(rng, 4) ? -std::numeric_limits<double>::infinity()
                                     : static_cast<double>(pick(rng, -spread, spread)) * 0.125;
  });
  for (std::int64_t row = 0; row < rows; ++row) {
    logits[at(row * vocab + pick(rng, 0, vocab - 1))] =
        static_cast<double>(pick(rng, -spread, spread)) * 0.125;
  }
  return logits;
}

std::vector<float> random_uniforms(Rng& rng, std::int64_t count) {
  std::vector<float> uniforms(at(count));
  std::generate(uniforms.begin(), uniforms.end(), [&] {
    return rarely(rng, 20) ? 0.0F : static_cast<float>(rng() >> 40) * 0x1p-24F;
  });
  return uniforms;
}

Ints random_tokens(Rng& rng, std::int64_t count, std::int64_t vocab) {
  Ints tokens(at(count));
  std::generate(tokens.begin(), tokens.end(),
                [&] { return static_cast<std::int32_t>(pick(rng, 0, vocab - 1)); });
  return tokens;
}

std::string some_temperature(Rng& rng) {
  static const char* const kTemperatures[] = {"0", "0.01", "0.3", "0.8", "1", "2.5", "1000"};
  return kTemperatures[pick(rng, 0, 6)];
}

std::string tau_fault(const std::vector<double>& expected, const std::vector<double>& got) {
  if (got.size() != expected.size()) {
    return "tau has another size";
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(got[i] - expected[i]) <= std::max(kNear * std::abs(expected[i]), 1e-5))) {
      return "tau[" + std::to_string(i) + "] is " + std::to_string(got[i]) + ", not " +
             std::to_string(expected[i]);
    }
  }
  return {};
}

// Whether a draw at u from the weights may be `token`.
bool may_draw(const std::vector<double>& weights, double u, std::int32_t token) {
  const double whole = kernels::sum_of(weights);
  if (token < 0 || at(token) >= weights.size() || !(weights[at(token)] > 0.0)) {
    return false;
  }
  double before = 0.0;
  for (std::int32_t x = 0; x < token; ++x) {
    before += weights[at(x)];
  }
  return before / whole <= u + kNear && (before + weights[at(token)]) / whole >= u - kNear;
}
// The same where nothing, or next to nothing, of `left` means a draw from `row`.
bool may_draw(const std::vector<double>& left, const std::vector<double>& row, double u,
              std::int32_t token) {
  return may_draw(left, u, token) || (kernels::sum_of(left) < 1e-3 && may_draw(row, u, token));
}

struct Chain {
  std::int64_t samples = 1, gamma = 0, vocab = 1;
  std::string variant;
  double temperature = 1.0, alpha = 0.0, beta = 1.0;
  std::vector<double> target, draft;
  Ints drafted;
  std::vector<float> uniforms;

  bool may_be(std::int64_t accepted, double u, std::int32_t token) const {
    const double* p = target.data() + accepted * vocab;
    const std::vector<double> row = kernels::softmax_row(p, vocab, temperature);
    if (accepted == gamma) {
      return may_draw(row, u, token);
    }
    const double* q = draft.data() + accepted * vocab;
    const kernels::SigmoidScale scale{temperature, alpha, beta};
    const bool sigmoid = variant == "sigmoid";
    std::vector<double> left = sigmoid ? kernels::sigmoid_row(p, vocab, scale) : row;
    const std::vector<double> other = sigmoid ? kernels::sigmoid_row(q, vocab, scale)
                                              : kernels::softmax_row(q, vocab, temperature);
    std::transform(left.begin(), left.end(), other.begin(), left.begin(),
                   [](double a, double b) { return std::max(0.0, a - b); });
    return may_draw(left, row, u, token);
  }
};

// The tokens of one sample, -1 padded.
std::string sample_fault(const Chain& chain, std::int64_t sample, const std::vector<double>& tau,
                         std::int64_t expected, std::int64_t got, const Ints& expected_tokens,
                         const Ints& tokens) {
  const float* uniform = chain.uniforms.data() + sample * (chain.gamma + 1);
  if (got != expected) {
    const std::int64_t c = std::min(got, expected);
    const bool near = c >= 0 && std::max(got, expected) <= chain.gamma &&
                      std::abs(double{uniform[c]} - tau[at(sample * chain.gamma + c)]) <= kNear;
    return near ? "" : "accepted is " + std::to_string(got) + ", not " + std::to_string(expected);
  }
  const std::int64_t first = sample * (chain.gamma + 1);
  for (std::int64_t c = 0; c <= chain.gamma; ++c) {
    const std::int32_t token = tokens[at(first + c)];
    const bool drawn = c == got && chain.may_be(got, uniform[chain.gamma], token);
    if (token != expected_tokens[at(first + c)] && !drawn) {
      return "token " + std::to_string(c) + " is " + std::to_string(token) + ", not " +
             std::to_string(expected_tokens[at(first + c)]);
    }
  }
  return {};
}

// One sample's tokens as [gamma + 1].
Ints padded(Ints tokens, std::int64_t size) {
  tokens.resize(at(size), -1);
  return tokens;
}

std::string chain_fault(const DoorCase& c, const Chain& chain, const TensorSet& got) {
  const DoorAnswer cpu = answer_of(c, "cpu", c.dtype);
  const std::vector<double> tau = floats_of(cpu.results, "tau");
  const std::string fault = tau_fault(tau, floats_of(got, "tau"));
  const Ints expected = integers_of(cpu.results, "accepted");
  const Ints accepted = integers_of(got, "accepted");
  const std::int64_t tokens = chain.samples * (chain.gamma + 1);
  const Ints expected_tokens = padded(integers_of(cpu.results, "tokens"), tokens);
  const Ints got_tokens = padded(integers_of(got, "tokens"), tokens);
  if (!fault.empty() || accepted.size() != expected.size()) {
    return fault.empty() ? "accepted has another size" : fault;
  }
  for (std::int64_t sample = 0; sample < chain.samples; ++sample) {
    const std::string wrong = sample_fault(chain, sample, tau, expected[at(sample)],
                                           accepted[at(sample)], expected_tokens, got_tokens);
    if (!wrong.empty()) {
      return "sample " + std::to_string(sample) + ": " + wrong;
    }
  }
  return {};
}

struct Tree {
  std::int64_t samples = 1, nodes = 1, vocab = 1;
  double temperature = 1.0;
  std::vector<double> target;
  Ints parent, tokens;
  std::vector<float> uniforms;

  // Whether a child of `node` is tested with a number that is near what it is compared with.
  bool is_near(std::int64_t sample, std::int64_t node, const std::vector<double>& tau) const {
    for (std::int64_t child = node + 1; child < nodes; ++child) {
      const double u = double{uniforms[at(sample * nodes + child - 1)]};
      if (parent[at(child)] == node && std::abs(u - tau[at(sample * nodes + child)]) <= kNear) {
        return true;
      }
    }
    return false;
  }
  bool may_be(std::int64_t sample, std::int64_t node, std::int32_t token) const {
    const std::vector<double> row =
        kernels::softmax_row(target.data() + node * vocab, vocab, temperature);
    std::vector<double> left = row;
    for (std::int64_t child = node + 1; child < nodes; ++child) {
      if (parent[at(child)] == node) {
        left[at(tokens[at(sample * nodes + child)])] = 0.0;
      }
    }
    return may_draw(left, row, double{uniforms[at(sample * nodes + nodes - 1)]}, token);
  }
};

std::string walk_fault(const Tree& tree, std::int64_t sample, const std::vector<double>& tau,
                       const Ints& expected_path, const Ints& path, const Ints& expected_tokens,
                       const Ints& tokens) {
  std::int64_t node = 0;
  for (std::int64_t i = 0; i < tree.nodes; ++i) {
    const std::size_t place = at(sample * tree.nodes + i);
    if (path[place] != expected_path[place]) {
      return tree.is_near(sample, node, tau)
                 ? ""
                 : "path " + std::to_string(i) + " is " + std::to_string(path[place]) + ", not " +
                       std::to_string(expected_path[place]);
    }
    const bool drawn = path[place] < 0 && (i == 0 || path[place - 1] >= 0);
    if (tokens[place] != expected_tokens[place] &&
        !(drawn && tree.may_be(sample, node, tokens[place]))) {
      return "token " + std::to_string(i) + " is " + std::to_string(tokens[place]) + ", not " +
             std::to_string(expected_tokens[place]);
    }
    node = path[place] < 0 ? node : path[place];
  }
  return {};
}

std::string tree_fault(const DoorCase& c, const Tree& tree, const TensorSet& got) {
  const DoorAnswer cpu = answer_of(c, "cpu", c.dtype);
  const std::vector<double> tau = floats_of(cpu.results, "tau");
  const std::string fault = tau_fault(tau, floats_of(got, "tau"));
  if (!fault.empty()) {
    return fault;
  }
  const std::int64_t size = tree.samples * tree.nodes;
  const auto list = [&](const TensorSet& set, const char* name) {
    return padded(integers_of(set, name), size);
  };
  const Ints expected_path = list(cpu.results, "path");
  const Ints path = list(got, "path");
  const Ints expected_tokens = list(cpu.results, "tokens");
  const Ints tokens = list(got, "tokens");
  const Ints accepted = integers_of(got, "accepted");
  for (std::int64_t sample = 0; sample < tree.samples; ++sample) {
    const auto first = path.begin() + sample * tree.nodes;
    if (accepted[at(sample)] !=
        std::count_if(first, first + tree.nodes, [](std::int32_t node) { return node >= 0; })) {
      return "accepted is not the path's length";
    }
    const std::string wrong =
        walk_fault(tree, sample, tau, expected_path, path, expected_tokens, tokens);
    if (!wrong.empty()) {
      return "sample " + std::to_string(sample) + ": " + wrong;
    }
  }
  return {};
}

template <class Call>
void with_samples(Rng& rng, std::int64_t& samples, const Call& call) {
  const bool many = rarely(rng, 3);
  samples = !many ? 1 : rarely(rng, 6) ? pick(rng, 1, 600) : pick(rng, 1, 5);
  call(many);
}

}  // namespace

DoorCase random_spec_door(Rng& rng) {
  static const char* const kVariants[] = {"baseline", "exact", "sigmoid"};
  Chain chain;
  chain.variant = kVariants[pick(rng, 0, 2)];
  chain.vocab = some_vocab(rng);
  chain.gamma = rarely(rng, 20) ? pick(rng, 0, 40) : pick(rng, 0, 6);
  DoorCase c{.variant = chain.variant, .dtype = rarely(rng, 2) ? "bf16" : "f32"};
  chain.target = random_logits(rng, chain.gamma + 1, chain.vocab);
  chain.draft = random_logits(rng, chain.gamma, chain.vocab);
  for (std::int64_t i = 0; i < chain.gamma && rarely(rng, 3); ++i) {  // drafts that agree
    std::copy_n(chain.target.begin() + i * chain.vocab, chain.vocab,
                chain.draft.begin() + i * chain.vocab);
  }
  with_samples(rng, chain.samples, [&](bool many) {
    chain.drafted = random_tokens(rng, chain.samples * chain.gamma, chain.vocab);
    chain.uniforms = random_uniforms(rng, chain.samples * (chain.gamma + 1));
    const auto shape = [&](std::int64_t width) {
      return many ? engine::Shape{chain.samples, width} : engine::Shape{width};
    };
    c.input.tensors["draft_tokens"] = tensor_of(chain.drafted, shape(chain.gamma));
    c.input.tensors["uniforms"] = tensor_of(chain.uniforms, shape(chain.gamma + 1));
  });
  c.input.tensors["target_logits"] = tensor_of(chain.target, {chain.gamma + 1, chain.vocab});
  c.input.tensors["draft_logits"] = tensor_of(chain.draft, {chain.gamma, chain.vocab});
  std::string temperature = some_temperature(rng);
  if (chain.variant == "sigmoid") {
    temperature = temperature == "0" ? "1" : temperature;
    chain.alpha = static_cast<double>(pick(rng, -20, 10));
    chain.beta = chain.alpha + static_cast<double>(pick(rng, 1, 20));
    c.input.metadata["alpha"] = std::to_string(chain.alpha);
    c.input.metadata["beta"] = std::to_string(chain.beta);
  }
  chain.temperature = std::stod(temperature);
  c.input.metadata["temperature"] = temperature;
  c.compare = [chain = std::move(chain)](const DoorCase& own, const TensorSet& got) {
    return chain_fault(own, chain, got);
  };
  return c;
}

DoorCase random_tree_door(Rng& rng) {
  static const char* const kVariants[] = {"baseline", "exact"};
  Tree tree;
  tree.vocab = some_vocab(rng);
  tree.nodes = rarely(rng, 20) ? pick(rng, 1, 300) : pick(rng, 1, 14);
  DoorCase c{.variant = kVariants[pick(rng, 0, 1)], .dtype = rarely(rng, 2) ? "bf16" : "f32"};
  tree.target = random_logits(rng, tree.nodes, tree.vocab);
  tree.parent.push_back(-1);
  const std::int64_t reach = pick(rng, 1, 12);  // 1: a chain
  for (std::int64_t i = 1; i < tree.nodes; ++i) {
    tree.parent.push_back(
        static_cast<std::int32_t>(pick(rng, std::max<std::int64_t>(0, i - reach), i - 1)));
  }
  with_samples(rng, tree.samples, [&](bool many) {
    tree.tokens = random_tokens(rng, tree.samples * tree.nodes, tree.vocab);
    tree.uniforms = random_uniforms(rng, tree.samples * tree.nodes);
    const engine::Shape shape =
        many ? engine::Shape{tree.samples, tree.nodes} : engine::Shape{tree.nodes};
    c.input.tensors["tokens"] = tensor_of(tree.tokens, shape);
    c.input.tensors["uniforms"] = tensor_of(tree.uniforms, shape);
  });
  c.input.tensors["target_logits"] = tensor_of(tree.target, {tree.nodes, tree.vocab});
  c.input.tensors["parent"] = tensor_of(tree.parent, {tree.nodes});
  c.input.metadata["temperature"] = some_temperature(rng);
  tree.temperature = std::stod(c.input.metadata["temperature"]);
  c.compare = [tree = std::move(tree)](const DoorCase& own, const TensorSet& got) {
    return tree_fault(own, tree, got);
  };
  return c;
}

}  // namespace versieve::testing
