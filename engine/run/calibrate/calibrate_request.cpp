#include "engine/run/calibrate/calibrate_request.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/calibrate/text_loss.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/load.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

void check_request(const CalibrateRequest& request) {
  if (request.texts.empty() && request.windows.empty()) {
    throw Error(ExitCode::kUsage, "calibrate needs a text: --text FILE, once or more");
  }
  if (!std::isfinite(request.budget) || request.budget < 0.0) {
    throw Error(ExitCode::kUsage, "the budget is a number of nats a token, from 0 up");
  }
}

std::vector<std::vector<std::int32_t>> read_texts(const CalibrateRequest& request,
                                                  const Tokenizer& tokenizer, const LlmShape& shape,
                                                  CalibrateReport& report) {
  std::vector<std::vector<std::int32_t>> texts;
  for (const std::filesystem::path& path : request.texts) {
    texts.push_back(tokenizer.encode(read_prompt(path)));
    const std::int64_t tokens = static_cast<std::int64_t>(texts.back().size());
    if (tokens > shape.max_position) {
      throw Error(ExitCode::kBadInput, path.string() + ": the text has " + std::to_string(tokens) +
                                           " tokens, the model takes " +
                                           std::to_string(shape.max_position));
    }
    report.texts.push_back({path.filename().string(), tokens});
  }
  for (const CalibrateWindow& window : request.windows) {
    tokenizer.check(window.tokens);
    report.texts.push_back({window.name, static_cast<std::int64_t>(window.tokens.size())});
    texts.push_back(window.tokens);
  }
  const std::int64_t least = TextLoss<float>::first_scored(shape.nsa) + 1;  // read, none predicted
  if (std::none_of(texts.begin(), texts.end(), [least](const std::vector<std::int32_t>& text) {
        return static_cast<std::int64_t>(text.size()) > least;
      })) {
    throw Error(ExitCode::kAnswerNo,
                "no text is longer than " + std::to_string(least) +
                    " tokens: below that every block is selected, whatever the schedule");
  }
  return texts;
}

template <class T>
CalibrateReport calibrate_on(const CalibrateRequest& request, const ComputeDevice& device,
                             std::unique_ptr<kernels::Ops<T>> ops) {
  const Checkpoint checkpoint = load_target(request.model);
  if (checkpoint.shape.attention != AttentionKind::kNsa) {
    throw Error(ExitCode::kAnswerNo,
                "a dense target selects no blocks, so there is no schedule to calibrate");
  }
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(request.model, checkpoint.shape);
  CalibrateReport report{.model = checkpoint.shape.name,
                         .backend = name_of(device.backend),
                         .device = device.name,
                         .dtype = request.dtype,
                         .budget = request.budget,
                         .remarks = checkpoint.remarks};
  Target<T> target = make_target(*ops, checkpoint, nullptr);
  const int threads = request.threads > 0
                          ? request.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  TextLoss<T> loss(*ops, target, read_texts(request, *tokenizer, checkpoint.shape, report),
                   threads);
  report.scored_tokens = loss.scored_tokens();
  report.search = search_schedule(
      checkpoint.shape.layers, request.budget,
      [&](const std::string& schedule) {
        const double value = loss(schedule);
        if (!std::isfinite(value)) {
          throw Error(ExitCode::kAnswerNo,
                      "the loss of the schedule " + schedule + " is not a finite number");
        }
        if (request.on_loss) {
          request.on_loss(schedule, value);
        }
        return value;
      },
      request.most_tried);
  return report;
}

}  // namespace

CalibrateReport run_calibration(const CalibrateRequest& request) {
  check_request(request);
  const ComputeDevice device = compute_device(request.backend, request.threads);
  return with_ops(device, request.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    return calibrate_on<T>(request, device, std::move(ops));
  });
}

}  // namespace versieve::engine
