// spec_sample at the door: speculative sampling of a chain, one sample or R of them; or of the
// chains of B sequences.
#include "engine/measure/door/cuda_limits.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/sampling.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

constexpr const char* kVariants[] = {"baseline", "exact", "sigmoid"};
constexpr DoorTensor kInputs[] = {{"target_logits", "float", "[B,]gamma+1,V"},
                                  {"draft_logits", "float", "[B,]gamma,V"},
                                  {"draft_tokens", "I32", "[B,][R,]gamma"},
                                  {"uniforms", "float", "[B,][R,]gamma+1"}};
constexpr DoorKey kKeys[] = {
    {"temperature", "T >= 0; 0 is one-hot at the lowest argmax; sigmoid needs T > 0"},
    {"alpha", "sigmoid((z / T - alpha) / (beta - alpha)); sigmoid only"},
    {"beta", "above alpha; sigmoid only"},
    {"top_k", "optional: of each row the k largest logits; 0 is all"},
    {"top_p", "optional, in (0, 1]: of those the fewest that have this mass"},
    {"min_p", "optional, in [0, 1]: of those what is as likely as this share of the likeliest"}};
constexpr DoorTensor kOutputs[] = {{"accepted", "I32", "1 or [B,][R]"},
                                   {"tokens", "I32", "accepted+1 or [B,][R,]gamma+1"},
                                   {"tau", "float", "[B,][R,]gamma"}};

template <class T>
struct Chain {
  std::vector<std::int64_t> leading;  // B where the logits have it, R where the tokens do
  std::vector<T> target, draft;
  std::vector<std::int32_t> draft_tokens;
  std::vector<kernels::SumOf<T>> uniforms;
  double temperature = 1.0;
  double alpha = 0.0, beta = 1.0;  // of sigmoid
};

kernels::SpecSampleVariant variant_of(const std::string& name) {
  return name == "baseline" ? kernels::SpecSampleVariant::kBaseline
         : name == "exact"  ? kernels::SpecSampleVariant::kExact
                            : kernels::SpecSampleVariant::kSigmoid;
}

template <class T>
void read_scale(DoorInput& input, Chain<T>& chain) {
  if (chain.temperature == 0.0) {
    input.refuse("sigmoid needs a temperature above 0");
  }
  chain.alpha = input.number_key("alpha");
  chain.beta = input.number_key("beta");
  if (chain.alpha >= chain.beta) {
    input.refuse("alpha must be below beta");
  }
}

template <class T>
Chain<T> read_chain(DoorInput& input, kernels::SpecSampleVariant variant) {
  Chain<T> chain;
  const bool batch = input.rank("target_logits") == 3;
  const bool many = input.rank("draft_tokens") == (batch ? 3 : 2);
  const std::string sequences = batch ? "B," : "";
  const std::string leading = sequences + (many ? "R," : "");
  if (!batch) {
    input.set_dim("B", 1);
  }
  if (!many) {
    input.set_dim("R", 1);
  }
  chain.draft = logits<T>(input, "draft_logits", sequences + "gamma,V");
  input.require_at_least("V", 1);
  input.require_at_least("B", 1);
  input.set_dim("gamma+1", input.dim("gamma") + 1);
  chain.target = logits<T>(input, "target_logits", sequences + "gamma+1,V");
  chain.draft_tokens = vocabulary_tokens(input, "draft_tokens", leading + "gamma");
  input.require_at_least("R", 1);
  chain.uniforms =
      below_one<kernels::SumOf<T>>(unit_numbers(input, "uniforms", leading + "gamma+1"));
  if (batch) {
    chain.leading.push_back(input.dim("B"));
  }
  if (many) {
    chain.leading.push_back(input.dim("R"));
  }
  chain.temperature = temperature(input);
  if (variant == kernels::SpecSampleVariant::kSigmoid) {
    read_scale(input, chain);
  }
  return chain;
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  kernels::SpecSampleParams<T> p;
  p.variant = variant_of(request.variant);
  const Chain<T> chain = read_chain<T>(input, p.variant);
  p.samples = input.dim("R");
  p.batch = input.dim("B");
  p.gamma = input.dim("gamma");
  p.vocab = input.dim("V");
  p.temperature = chain.temperature;
  p.alpha = chain.alpha;
  p.beta = chain.beta;
  p.truncation = truncation(input);
  require_on_cuda(request,
                  p.vocab < kCudaMaxVocab && p.gamma < kCudaMaxGamma && p.batch <= kCudaMaxBatch &&
                      p.batch * (p.gamma + 1) < kCudaMaxVocab &&
                      p.batch * p.samples <= kCudaMaxIndex,
                  "a vocabulary below 2^30, gamma below 2^20, at most 65,535 sequences and fewer "
                  "than 2^31 samples of all");
  const std::int64_t draws = p.batch * p.samples;
  std::vector<std::int32_t> accepted(static_cast<std::size_t>(draws));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(draws * (p.gamma + 1)));
  std::vector<kernels::SumOf<T>> tau(static_cast<std::size_t>(draws * p.gamma));
  DoorWorkspace<T> work(request);
  p.target_logits = work.in(chain.target);
  p.draft_logits = work.in(chain.draft);
  p.draft_tokens = work.in(chain.draft_tokens);
  p.uniforms = work.in(chain.uniforms);
  p.accepted = work.out(accepted);
  p.tokens = work.out(tokens);
  p.tau = work.out(tau);
  work.run(p);
  work.finish();
  TensorSet results;
  const auto shape = [&](std::int64_t of_draw) {
    std::vector<std::int64_t> whole = chain.leading;
    whole.push_back(of_draw);
    return whole;
  };
  if (!chain.leading.empty()) {
    results.tensors["accepted"] = tensor_of(accepted, chain.leading);
    results.tensors["tokens"] = tensor_of(tokens, shape(p.gamma + 1));
    results.tensors["tau"] = float_result(tau, shape(p.gamma));
  } else {
    results.tensors["accepted"] = tensor_of(accepted, {1});
    tokens.resize(static_cast<std::size_t>(accepted[0]) + 1);
    results.tensors["tokens"] = tensor_of(tokens, {accepted[0] + 1});
    results.tensors["tau"] = float_result(tau, {p.gamma});
  }
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_logits_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kSpecSampleDoor = {"spec_sample", kVariants, kInputs, kKeys, kOutputs, run};

}  // namespace versieve::engine
