#include "engine/cli/progress_text.h"

#include "engine/io/formatted.h"

namespace versieve::cli {
namespace {

std::string times_text(double elapsed_s, double left_s) {
  return duration_text(elapsed_s) + " passed, about " + duration_text(left_s) + " left";
}

}  // namespace

std::string duration_text(double seconds) {
  const int whole = static_cast<int>(seconds + 0.5);
  return formatted("%d:%02d", whole / 60, whole % 60);
}

std::string progress_text(const engine::CampaignProgress& progress) {
  std::string text = "\r" + std::to_string(progress.done) + "/" + std::to_string(progress.total) +
                     " points, " + times_text(progress.elapsed_s, progress.left_s);
  if (progress.failed > 0) {
    text += ", " + std::to_string(progress.failed) + " failed";
  }
  return text + "   " + (progress.done == progress.total ? "\n" : "");
}

std::string quality_progress_text(const engine::QualityProgress& progress) {
  const bool is_over = progress.left_s <= 0.0;
  return "\r" + engine::formatted("%3.0f %%, ", 100.0 * progress.done) +
         times_text(progress.elapsed_s, progress.left_s) + ": " + progress.what + "      " +
         (is_over ? "\n" : "");
}

}  // namespace versieve::cli
