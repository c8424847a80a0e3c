// Points and runs for the tests of the store: every field set, different for each number.
#pragma once

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "model/words/measurement.h"
#include "model/words/quality_point.h"
#include "model/words/step_trace.h"

namespace versieve::test {

inline RunRecord sample_run(const std::string& uuid, const std::string& device = "NVIDIA H200") {
  RunRecord run;
  run.uuid = uuid;
  run.kind = "campaign";
  run.device = device;
  run.device_uuid_hash = "5f3a";
  run.counter_access = CounterState::kOk;
  run.counter_detail = "the counters answered";
  run.self_check = SelfCheckVerdict::kOk;
  run.started_utc = "2026-11-20T21:00:00Z";
  run.configuration = R"({"sweep": "campaign", "samples": 31})";
  run.environment = R"({"driver": "580.159.04", "ecc": true})";
  run.revision = "0123abcd+dirty";
  run.seed = 0xfedcba9876543210ULL;
  return run;
}

// Of a task set, and if odd of texts.
inline QualityPoint sample_quality(int number) {
  QualityPoint point{.pair = {"demo-nsa", std::string(64, 'c')},
                     .set = number % 2 == 0 ? "recall" : "chat",
                     .distance = number % 4 == 2 ? "2-4K" : "",
                     .split = "test",
                     .strategy = "nsa/d7k4n" + std::to_string(8 + number) + "/dfs/c4a/F*",
                     .dtype = Dtype::kBf16,
                     .backend = Backend::kCuda,
                     .set_sha256 = std::string(64, 'e'),
                     .read_as = "trees",
                     .tokens = 400 + number,
                     .loss_nats = 1.25,
                     .kl_nats = {0.01 * number, 0.005, 0.02},
                     .rise_nats = {-0.001, -0.004, 0.003},
                     .same_token = {0.98, 0.97, 0.99},
                     .answers = {}};
  if (number % 2 == 0) {
    point.answers = QualityAnswers{.questions = 100,
                                   .right = 80,
                                   .gained = 1,
                                   .lost = 3,
                                   .accuracy = {0.8, 0.71, 0.87},
                                   .change = {-0.02, -0.06, 0.02}};
  }
  return point;
}

inline RangeMeasurement sample_range(const std::string& path, int number) {
  RangeMeasurement range;
  range.path = path;
  range.launches = 16 + number;
  range.predicted.read(TrafficTerm::kSelectedBlocks, 1e6 + number);
  range.predicted.write(TrafficTerm::kQueryOutput, 12345.5 * number);
  range.predicted.flops = 2.5e9 + number;
  range.gpu_time_ns = {1000.0 + number, 1001.25, 999.0};
  range.counters = {{"dram__bytes_read.sum", 1.01e6 + number, CounterStatus::kOk},
                    {"dram__bytes_write.sum", 2e4 + number, CounterStatus::kOk},
                    {"lts__t_sector_hit_rate.pct", std::nullopt, CounterStatus::kDropped}};
  return range;
}

inline PointMeasurement sample_point(int number) {
  PointMeasurement point;
  point.key.workload = static_cast<WorkloadKind>(number % 3);
  point.key.model = number % 2 == 0 ? "nsa-1b" : "demo-nsa";
  point.key.pair = number % 3 == 2 ? std::string(64, 'c') : std::string();  // of acceptance points
  point.key.regime = "chat";
  point.key.split = "test";
  point.key.strategy = "nsa/d6k8n64/dfs/c1/F*";
  point.key.dtype = Dtype::kBf16;
  point.key.backend = Backend::kCuda;
  point.key.cache_state = CacheState::kColdRotate;
  point.key.launch = LaunchMode::kGraph;
  point.key.context_len = 1024 + number;
  point.key.num_queries = 64;
  point.key.overlap = number % 2 == 0 ? std::optional<double>(0.75) : std::nullopt;
  point.key.temperature = number % 2 == 0 ? 0.0 : 0.625;
  for (int sample = 0; sample < 7; ++sample) {
    point.time_ns.push_back(5000.0 + number + (sample * 37) % 11);
  }
  point.stop_reason = "target";
  point.adjacent_overlap = 0.5 + 0.001 * number;
  point.unique_blocks = 41.25;
  point.ranges = {sample_range("nsa_compressed", number), sample_range("nsa_selected", number + 1)};
  AcceptanceMeasurement acceptance;
  acceptance.steps = 10;
  acceptance.generated_tokens = 42;
  acceptance.accepted_histogram = {0, 1, 2, 3, 4, 0};
  acceptance.accepted_per_step = 4.2;
  acceptance.looping = number % 2 == 1;
  acceptance.teacher_forced = 3.9;
  acceptance.walks = {{"code-400-0.txt@0", {3, 1, 5 + number}}, {"code-400-0.txt@1024", {2, 7}}};
  acceptance.texts = {{"code-400-0.txt@0", 7, 30, number % 2 == 1}, {"prose.txt@0", 3, 12, false}};
  point.acceptance = acceptance;
  BlockSharing sharing{.along = SharingAlong::kDfs, .layer = 3, .steps = 10};
  sharing.overlap[1] = 0.875;
  sharing.overlap[8] = 0.25 + 0.001 * number;
  sharing.group_blocks[0] = 17.5;
  sharing.loads_saved[2] = 0.625;
  BlockSharing positions{.along = SharingAlong::kPosition, .layer = 0, .steps = 10};
  positions.overlap[0] = 0.75;
  positions.next_layer = 0.5;
  point.sharing = {sharing, positions};
  return point;
}

// Of a step of three launches, the second of which begins before the first ends, and of a tree of
// three nodes.
inline StepDetail sample_detail(int number) {
  StepTrace trace{.replayed = number % 2 == 0, .period_ns = {}, .launches = {}};
  if (trace.replayed) {
    trace.period_ns = 9000.0 + number;
  }
  trace.launches = {{.kernel = "nsa_fused_kernel<128, 4>",
                     .range = "nsa_fused",
                     .evidence = RangeEvidence::kOrder,
                     .start_ns = 0,
                     .duration_ns = 3000 + number,
                     .stream = 13,
                     .blocks = 132,
                     .threads = 256},
                    {.kernel = "linear_kernel",
                     .range = "linear",
                     .evidence = RangeEvidence::kLaunched,
                     .start_ns = 2500,
                     .duration_ns = 1500,
                     .stream = 13,
                     .blocks = 64,
                     .threads = 128},
                    {.kernel = "memcpy DtoH",
                     .range = "",
                     .evidence = RangeEvidence::kUnknown,
                     .start_ns = 6000,
                     .duration_ns = 800,
                     .stream = 14}};
  BlockChoice choice{.layer = 7, .kv_head = 1, .parent = {-1, 0, 0}, .blocks = {}};
  choice.blocks = {{0, 3, 5}, {0, 3, 9 + number}, {}};
  return {.trace = trace, .choice = choice};
}

// Every field as text, so that two points can be compared and a difference be read.
class Description {
 public:
  Description& add(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g ", value);
    text_ += std::isnan(value) ? "nan " : text;
    return *this;
  }
  Description& add(std::int64_t value) { return add(std::to_string(value)); }
  Description& add(const std::string& value) {
    text_ += "'" + value + "' ";
    return *this;
  }
  Description& add(const std::optional<double>& value) { return value ? add(*value) : add("none"); }
  Description& add(const char* value) { return add(std::string(value)); }
  template <typename T>
  Description& add(const std::vector<T>& values) {
    for (const T& value : values) {
      add(value);
    }
    text_ += "| ";
    return *this;
  }
  Description& add(const CounterValue& counter) {
    return add(counter.metric).add(counter.value).add(name_of(counter.status));
  }
  Description& add(const RangeMeasurement& range) {
    add(range.path).add(range.launches).add(range.predicted.flops).add(range.gpu_time_ns);
    for (std::size_t term = 0; term < kTrafficTermCount; ++term) {
      add(range.predicted.read_bytes[term]).add(range.predicted.write_bytes[term]);
    }
    return add(range.counters);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

inline std::string describe(const PointKey& key) {
  Description text;
  text.add(name_of(key.workload)).add(key.model).add(key.regime).add(key.split).add(key.strategy);
  text.add(name_of(key.dtype)).add(name_of(key.backend)).add(name_of(key.cache_state));
  text.add(name_of(key.launch)).add(key.pair);
  return text.add(key.context_len)
      .add(key.num_queries)
      .add(key.overlap)
      .add(std::optional<double>(key.temperature))
      .text();
}

inline std::string describe(const PointMeasurement& point) {
  Description text;
  text.add(name_of(point.status)).add(point.reason).add(point.time_ns).add(point.stop_reason);
  text.add(name_of(point.reliability)).add(point.adjacent_overlap).add(point.unique_blocks);
  text.add(point.ranges);
  if (point.acceptance) {
    const AcceptanceMeasurement& acceptance = *point.acceptance;
    text.add(acceptance.steps).add(acceptance.generated_tokens);
    text.add(acceptance.accepted_histogram).add(acceptance.accepted_per_step);
    text.add(std::int64_t{acceptance.looping}).add(acceptance.teacher_forced);
    for (const AcceptanceWalk& walk : acceptance.walks) {
      text.add(walk.text).add(walk.yields);
    }
    for (const TextYield& yield : acceptance.texts) {
      text.add(yield.text).add(yield.steps).add(yield.tokens).add(std::int64_t{yield.looping});
    }
  }
  for (const BlockSharing& sharing : point.sharing) {
    text.add(name_of(sharing.along)).add(sharing.layer).add(sharing.steps);
    text.add(std::vector(sharing.overlap.begin(), sharing.overlap.end()));
    text.add(std::vector(sharing.group_blocks.begin(), sharing.group_blocks.end()));
    text.add(std::vector(sharing.loads_saved.begin(), sharing.loads_saved.end()));
    text.add(sharing.next_layer);
  }
  return describe(point.key) + text.text();
}

inline std::string describe(const RunRecord& run) {
  Description text;
  text.add(run.uuid).add(run.kind).add(run.device).add(run.device_uuid_hash);
  text.add(name_of(run.counter_access))
      .add(run.counter_detail)
      .add(name_of(run.self_check))
      .add(run.started_utc);
  text.add(run.finished_utc).add(name_of(run.status)).add(run.configuration).add(run.environment);
  return text.add(run.revision).add(static_cast<std::int64_t>(run.seed)).text();
}

}  // namespace versieve::test
