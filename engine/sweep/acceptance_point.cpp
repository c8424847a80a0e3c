#include "engine/sweep/acceptance_point.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "engine/io/strict_json.h"
#include "engine/io/tokenizer.h"
#include "engine/model/load.h"
#include "engine/speculate/generate.h"
#include "engine/sweep/device_ops.h"
#include "model/error.h"
#include "model/strategy.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLoopTokens = 64;
constexpr std::int64_t kLoopPeriod = 16;
// Real text that a teacher-forced walk follows, at least and at most.
constexpr std::int64_t kShortestText = 64;
constexpr std::int64_t kLongestText = 320;

// A prompt of `context` tokens and the text that really follows it.
struct Sample {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> text;
};

// Texts of that regime and split cut to the context, longest files first; of one file as many as
// its length allows, apart by the walked text.
std::vector<Sample> samples_of(const fs::path& folder, const ByteTokenizer& tokenizer,
                               const PointKey& key, std::int64_t wanted) {
  const nlohmann::json index =
      parse_strict_json(read_text_file(folder / "index.json", 1 << 22), 8, "prompts/index.json");
  std::vector<std::pair<std::int64_t, std::string>> files;
  for (const nlohmann::json& entry : index) {
    if (entry.at("regime") == key.regime && entry.at("split") == key.split) {
      files.emplace_back(-entry.at("bytes").get<std::int64_t>(), entry.at("file"));
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Sample> samples;
  for (std::int64_t round = 0; static_cast<std::int64_t>(samples.size()) < wanted; ++round) {
    const std::size_t before = samples.size();
    for (const auto& [size, file] : files) {
      const std::vector<std::int32_t> tokens = tokenizer.encode(read_prompt(folder / file));
      const std::int64_t end = key.context_len + round * kLongestText;
      const std::int64_t left = static_cast<std::int64_t>(tokens.size()) - end;
      if (left < kShortestText || static_cast<std::int64_t>(samples.size()) == wanted) {
        continue;
      }
      // The prompt keeps its BOS and slides over the file, so that its length stays the context's.
      Sample sample;
      sample.prompt.push_back(tokens[0]);
      sample.prompt.insert(sample.prompt.end(), tokens.begin() + 1 + round * kLongestText,
                           tokens.begin() + end);
      sample.text.assign(tokens.begin() + end, tokens.begin() + end + std::min(left, kLongestText));
      samples.push_back(std::move(sample));
    }
    if (samples.size() == before) {
      break;
    }
  }
  return samples;
}

// A loaded pair with one prefilled prompt.
template <class T>
struct Slot {
  Slot(kernels::Ops<T>& ops, const Checkpoint& target_file, const DraftCheckpoint& draft_file)
      : target(make_target(ops, target_file, &draft_file)),
        draft(make_draft(ops, draft_file, target)),
        generator(ops, target, &draft) {}

  Target<T> target;
  Draft<T> draft;
  Generator<T> generator;
  Sample sample;
};

// Sums over the samples of a point.
struct Totals {
  AcceptanceMeasurement acceptance;
  double overlap = 0.0, unique = 0.0;  // sums over samples of means over layers
  std::int64_t overlap_count = 0, unique_count = 0;
  double forced_steps = 0.0, forced_tokens = 0.0;

  void add(const Generation& run) {
    acceptance.steps += run.steps;
    acceptance.generated_tokens += static_cast<std::int64_t>(run.tokens.size());
    std::vector<std::int64_t>& sum = acceptance.accepted_histogram;
    sum.resize(std::max(sum.size(), run.accepted_histogram.size()));
    for (std::size_t i = 0; i < run.accepted_histogram.size(); ++i) {
      sum[i] += run.accepted_histogram[i];
    }
  }
  void add_forced(const Generation& run) {
    for (std::size_t i = 0; i < run.accepted_histogram.size(); ++i) {
      forced_steps += static_cast<double>(run.accepted_histogram[i]);
      forced_tokens += static_cast<double>(run.accepted_histogram[i]) * static_cast<double>(i);
    }
  }
  void add_blocks(const Generation& run) {
    double layer_overlap = 0.0;
    double layer_unique = 0.0;
    std::int64_t layers = 0;
    for (const LayerOverlap& layer : run.overlap) {
      layer_unique += layer.unique_blocks;
      if (layer.overlap_steps > 0) {
        layer_overlap += layer.adjacent_overlap;
        layers += 1;
      }
    }
    if (!run.overlap.empty()) {
      unique += layer_unique / static_cast<double>(run.overlap.size());
      unique_count += 1;
    }
    if (layers > 0) {
      overlap += layer_overlap / static_cast<double>(layers);
      overlap_count += 1;
    }
  }
};

double mean_of(const std::vector<std::int64_t>& histogram) {
  double steps = 0.0;
  double tokens = 0.0;
  for (std::size_t i = 0; i < histogram.size(); ++i) {
    steps += static_cast<double>(histogram[i]);
    tokens += static_cast<double>(histogram[i]) * static_cast<double>(i);
  }
  return steps > 0.0 ? tokens / steps : 0.0;
}

template <class T>
class AcceptanceRunner final : public PointRunner {
 public:
  AcceptanceRunner(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads,
                   const fs::path& folder)
      : plan_(plan),
        folder_(folder),
        ops_(make_runner_ops<T>(on_gpu, instrument.stream(), threads)),
        target_file_(load_target(folder / "nsa")),
        draft_file_(load_draft(folder / "nsa" / "draft", target_file_.shape)),
        tokenizer_(ByteTokenizer::load(folder / "nsa", target_file_.shape)) {}

  PointMeasurement run(const PointKey& key) override {
    const Strategy strategy = Strategy::parse(key.strategy);
    std::string refusal = illegal_because(strategy, target_file_.shape);
    if (key.model != "demo-nsa") {
      refusal = "the only trained pair is demo-nsa";
    }
    if (refusal.empty()) {
      prepare(key);
      refusal = slots_.empty() ? "no text of this regime and split is that long" : "";
    }
    return refusal.empty() ? measure(key, strategy) : refused_point(key, refusal);
  }

 private:
  // Prompts are prefilled once for all strategies of a context, regime and split.
  void prepare(const PointKey& key) {
    const std::string name = key.regime + "/" + key.split + "/" + std::to_string(key.context_len);
    if (name == prepared_) {
      return;
    }
    std::vector<Sample> samples = samples_of(folder_ / "prompts", tokenizer_, key, plan_.prompts);
    slots_.resize(std::min(slots_.size(), samples.size()));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (i == slots_.size()) {
        slots_.push_back(std::make_unique<Slot<T>>(*ops_, target_file_, draft_file_));
      }
      slots_[i]->sample = std::move(samples[i]);
      slots_[i]->generator.prefill(slots_[i]->sample.prompt);
    }
    prepared_ = name;
  }

  PointMeasurement measure(const PointKey& key, const Strategy& strategy) {
    PointMeasurement point{.key = key};
    point.stop_reason = "fixed";
    GenerateOptions options{
        .strategy = strategy, .max_new_tokens = plan_.new_tokens, .eos = {tokenizer_.eos()}};
    Totals kept;
    Totals looping;
    for (const std::unique_ptr<Slot<T>>& slot : slots_) {
      options.measures_blocks = true;
      const Generation run = slot->generator.run(options);
      (is_looping(run.tokens) ? looping : kept).add(run);
      kept.add_blocks(run);
      if (strategy.draft.speculates()) {
        options.measures_blocks = false;
        kept.add_forced(slot->generator.teacher_forced(options, slot->sample.text));
      }
    }
    return finish(std::move(point), kept, looping);
  }

  static PointMeasurement finish(PointMeasurement point, const Totals& kept,
                                 const Totals& looping) {
    // Only when every sample fell into a loop are loops all there is to tell.
    const bool all_loop = kept.acceptance.steps == 0 && looping.acceptance.steps > 0;
    AcceptanceMeasurement acceptance = all_loop ? looping.acceptance : kept.acceptance;
    acceptance.looping = all_loop;
    acceptance.accepted_per_step = mean_of(acceptance.accepted_histogram);
    if (kept.forced_steps > 0.0) {
      acceptance.teacher_forced = kept.forced_tokens / kept.forced_steps;
    }
    if (kept.overlap_count > 0) {
      point.adjacent_overlap = kept.overlap / static_cast<double>(kept.overlap_count);
    }
    if (kept.unique_count > 0) {
      point.unique_blocks = kept.unique / static_cast<double>(kept.unique_count);
    }
    point.acceptance = std::move(acceptance);
    return point;
  }

  const SweepPlan& plan_;
  fs::path folder_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  Checkpoint target_file_;
  DraftCheckpoint draft_file_;
  ByteTokenizer tokenizer_;
  std::vector<std::unique_ptr<Slot<T>>> slots_;
  std::string prepared_;
};

}  // namespace

bool is_looping(std::span<const std::int32_t> tokens) {
  for (std::int64_t period = 1; period <= kLoopPeriod; ++period) {
    std::int64_t run = period;  // tokens in a row that repeat with this period
    for (std::int64_t i = period; i < static_cast<std::int64_t>(tokens.size()); ++i) {
      const bool repeats =
          tokens[static_cast<std::size_t>(i)] == tokens[static_cast<std::size_t>(i - period)];
      run = repeats ? run + 1 : period;
      if (run >= kLoopTokens) {
        return true;
      }
    }
  }
  return false;
}

template <class T>
std::unique_ptr<PointRunner> make_acceptance_runner(const SweepPlan& plan, Instrument& instrument,
                                                    bool on_gpu, int threads,
                                                    const std::string& demo_folder) {
  return std::make_unique<AcceptanceRunner<T>>(plan, instrument, on_gpu, threads, demo_folder);
}

template std::unique_ptr<PointRunner> make_acceptance_runner<float>(const SweepPlan&, Instrument&,
                                                                    bool, int, const std::string&);
template std::unique_ptr<PointRunner> make_acceptance_runner<Bf16>(const SweepPlan&, Instrument&,
                                                                   bool, int, const std::string&);

}  // namespace versieve::engine
