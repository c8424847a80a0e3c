#include "engine/run/batch/one_by_one.h"

#include <algorithm>
#include <utility>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Times of a request's steps as they come, for the tokens that stay when the last one is cut off.
class Gaps {
 public:
  explicit Gaps(double first_token) : newest_(first_token) {}

  void add(std::int64_t yielded, double time) {
    gaps_.insert(gaps_.end(), static_cast<std::size_t>(yielded),
                 (time - newest_) / static_cast<double>(yielded));
    newest_ = time;
  }
  double newest() const { return newest_; }
  std::vector<double> of(std::size_t tokens) const {
    const std::size_t count = std::min(gaps_.size(), tokens > 0 ? tokens - 1 : 0);
    return {gaps_.begin(), gaps_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  double newest_;
  std::vector<double> gaps_;
};

void add_phases(const PhaseSeconds& phases, SessionSeconds& spent) {
  spent.draft += phases[static_cast<std::size_t>(StepPhase::kDraft)];
  spent.enqueue += phases[static_cast<std::size_t>(StepPhase::kVerify)];
  spent.accept += phases[static_cast<std::size_t>(StepPhase::kAccept)];
  spent.commit += phases[static_cast<std::size_t>(StepPhase::kCommit)];
}

}  // namespace

template <class T>
OneByOne run_one_by_one(Generator<T>& generator, const std::vector<BatchRequest>& requests,
                        const std::vector<double>& arrivals, const std::function<double()>& now,
                        const std::function<void(double)>& sleep_until,
                        const std::function<void(FinishedRequest)>& finish) {
  VERSIEVE_ASSERT(arrivals.size() == requests.size(), "each request arrives");
  OneByOne out;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sleep_until(arrivals[i]);
    FinishedRequest result{.id = static_cast<std::int64_t>(i), .generation = {}};
    result.submitted = arrivals[i];
    result.joined = now();
    generator.prefill(requests[i].prompt);
    result.first_token = now();
    Gaps gaps(result.first_token);
    GenerateOptions options = requests[i].options;
    options.on_step = [&](const StepResult& step) { gaps.add(step.acceptance.yield(), now()); };
    result.generation = generator.run(options);
    result.finished = gaps.newest();
    result.gaps = gaps.of(result.generation.tokens.size());
    out.steps += result.generation.steps;
    add_phases(result.generation.seconds, out.spent);
    finish(std::move(result));
  }
  return out;
}

template OneByOne run_one_by_one(Generator<double>&, const std::vector<BatchRequest>&,
                                 const std::vector<double>&, const std::function<double()>&,
                                 const std::function<void(double)>&,
                                 const std::function<void(FinishedRequest)>&);
template OneByOne run_one_by_one(Generator<float>&, const std::vector<BatchRequest>&,
                                 const std::vector<double>&, const std::function<double()>&,
                                 const std::function<void(double)>&,
                                 const std::function<void(FinishedRequest)>&);
template OneByOne run_one_by_one(Generator<Bf16>&, const std::vector<BatchRequest>&,
                                 const std::vector<double>&, const std::function<double()>&,
                                 const std::function<void(double)>&,
                                 const std::function<void(FinishedRequest)>&);

}  // namespace versieve::engine
