// What an autoregressive step of the 1B geometry takes with its layers in one launch and launch by
// launch, at 16K in bf16: the layers alone, and whole steps.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>

#include "engine/run/model/tree_layout.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/decode_pair.h"

namespace versieve::test {
namespace {

constexpr std::int64_t kContext = 16384;
constexpr int kSteps = 20;

struct Times {
  double one = 0.0, many = 0.0;  // us a step, medians
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
double us_of(const Work& work) {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  work();
  return 1e6 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A node after the context, in device memory, that completes no compressed token.
class DeviceNode {
 public:
  DeviceNode(kernels::Ops<Bf16>& ops, const NsaGeometry& nsa)
      : ints_(ops, std::vector<std::int32_t>(static_cast<std::size_t>(8 + nsa.cmp_block), 0)),
        counts_(ops, {{.context_len = kContext}}) {
    std::vector<std::int32_t> values = ints_.read();
    values[1] = -1;
    values[2] = kContext;
    ints_.write(values);
  }
  engine::DeviceTree tree() const {
    const std::int32_t* const at = ints_.data();
    return {.max_context = kContext + 256,
            .counts = counts_.data(),
            .token = at,
            .parent = at + 1,
            .position = at + 2,
            .owner = at + 3,
            .block = at + 4,
            .source = at + 8};
  }

 private:
  kernels::OpsBuffer<Bf16, std::int32_t> ints_;
  kernels::OpsBuffer<Bf16, kernels::StepCounts> counts_;
};

// us a step of a graph of kSteps steps without acceptance and commit.
Times graph_times(kernels::Ops<Bf16>& ops, engine::Target<Bf16>& target,
                  const std::string& schedule) {
  const DeviceNode node(ops, target.shape().nsa);
  std::unique_ptr<kernels::Recording> graphs[2];
  std::vector<double> us[2];
  for (int one = 0; one < 2; ++one) {
    const engine::VerifyOptions options{.schedule = schedule, .one_launch = one == 1};
    target.verify_device(node.tree(), options);
    graphs[one] = ops.record([&] {
      for (int step = 0; step < kSteps; ++step) {
        target.verify_device(node.tree(), options);
      }
    });
    graphs[one]->launch();
    ops.synchronize();
  }
  for (int round = 0; round < 15; ++round) {  // in turn, so that drift meets both
    for (int one = 0; one < 2; ++one) {
      us[one].push_back(us_of([&] {
                          graphs[one]->launch();
                          ops.synchronize();
                        }) /
                        kSteps);
    }
  }
  return {.one = median(us[1]), .many = median(us[0])};
}

double step_us(kernels::Ops<Bf16>& ops, engine::Target<Bf16>& target,
               const engine::VerifyOptions& options) {
  engine::DeviceStepRunner<Bf16> steps(ops, target, nullptr, {.verify = options});
  steps.begin({.context_len = kContext, .token = 1, .max_context = kContext + 256});
  for (int i = 0; i < 4; ++i) {
    steps.launch();
    steps.wait();
  }
  steps.launch();
  const double us = us_of([&] {
    for (int i = 0; i < 2 * kSteps; ++i) {  // one ahead, as generation runs them
      steps.launch();
      steps.wait();
    }
  });
  steps.wait();
  return us / (2 * kSteps);
}

Times step_times(kernels::Ops<Bf16>& ops, engine::Target<Bf16>& target,
                 const std::string& schedule) {
  std::vector<double> one, many;
  for (int round = 0; round < 5; ++round) {
    many.push_back(step_us(ops, target, {.schedule = schedule, .one_launch = false}));
    one.push_back(step_us(ops, target, {.schedule = schedule}));
  }
  return {.one = median(one), .many = median(many)};
}

engine::Target<Bf16> target_of(kernels::Ops<Bf16>& ops, const LlmShape& shape) {
  return {ops, shape, decode_weights(ops, shape), {}};
}

}  // namespace

TEST_CASE("one launch for a token's layers is the faster one at the 1B geometry",
          "[decode][timing]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  std::printf("nsa-1b at 16K, bf16, us a step (medians): one launch, launch by launch\n");
  for (const std::int64_t vocab : {64, 128256}) {
    LlmShape shape = named_llm_shape("nsa-1b");
    shape.tied_embeddings = false;
    shape.vocab = vocab;
    engine::Target<Bf16> target = target_of(*ops, shape);
    fill_caches(*ops, target, kContext + 600);
    for (const char* letters : {"FFFF", "FRRR"}) {
      std::string schedule;
      for (int i = 0; i < 4; ++i) {
        schedule += letters;
      }
      INFO("vocabulary " << vocab << ", schedule " << schedule);
      DecodeLaunches launches;
      ops->set_observer(&launches);
      const Times graph = graph_times(*ops, target, schedule);
      ops->set_observer(nullptr);
      CHECK(launches.count() == 1 + kSteps);
      std::printf("(%s)*, %s: graph of %d steps %.1f, %.1f\n", letters,
                  vocab == 64 ? "layers alone" : "with the head", kSteps, graph.one, graph.many);
      CHECK(graph.one < graph.many);
      if (vocab > 64) {
        const Times steps = step_times(*ops, target, schedule);
        std::printf("(%s)*, whole recorded steps %.1f, %.1f\n", letters, steps.one, steps.many);
        CHECK(steps.one < steps.many);
      }
    }
  }
}

}  // namespace versieve::test
