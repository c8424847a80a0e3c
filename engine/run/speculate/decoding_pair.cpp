#include "engine/run/speculate/decoding_pair.h"

#include <algorithm>
#include <utility>

#include "engine/io/layer_map_file.h"
#include "engine/io/prompt/stop_tokens.h"
#include "engine/run/model/load.h"
#include "engine/run/model/synthetic.h"
#include "model/words/error.h"

namespace versieve::engine {

std::optional<LlmShape> geometry_of(const std::filesystem::path& model) {
  std::error_code ignored;
  if (std::filesystem::exists(model, ignored)) {
    return {};
  }
  try {
    return named_llm_shape(model.string());
  } catch (const Error&) {
    return {};
  }
}

template <class T>
DecodingPair<T>::DecodingPair(kernels::Ops<T>& ops, const std::filesystem::path& model,
                              Checkpoint target, bool drafts)
    : checkpoint_(std::move(target)),
      remarks_(checkpoint_.remarks),
      eos_(stop_tokens(model, checkpoint_.special.eos)) {
  const std::filesystem::path folder = model / "draft";
  std::error_code ignored;
  std::optional<DraftCheckpoint> head;
  if (drafts && std::filesystem::exists(folder, ignored)) {
    if (is_draft_model(folder)) {
      const Checkpoint own = load_draft_model(folder, checkpoint_.shape);
      draft_model_.emplace(make_target(ops, own, nullptr));
      remarks_.insert(remarks_.end(), own.remarks.begin(), own.remarks.end());
    } else {
      head = load_draft(folder, checkpoint_.shape);
      remarks_.insert(remarks_.end(), head->remarks.begin(), head->remarks.end());
    }
  }
  target_.emplace(make_target(ops, checkpoint_, head ? &*head : nullptr));
  if (head) {
    draft_.emplace(make_draft(ops, *head, *target_));
  }
  generator_.emplace(ops, *target_, draft_ ? &*draft_ : nullptr,
                     draft_model_ ? &*draft_model_ : nullptr);
  if (draft_model_ && has_layer_map(model)) {
    generator_->set_layer_map(
        read_layer_map(model, checkpoint_.shape, draft_model_->shape().layers).draft_layer);
  }
}

template <class T>
DecodingPair<T>::DecodingPair(kernels::Ops<T>& ops, const LlmShape& geometry, std::uint64_t seed) {
  const DraftShape draft = usual_draft(geometry);
  target_.emplace(make_synthetic_target(ops, geometry, draft, seed));
  draft_.emplace(make_synthetic_draft(ops, draft, *target_, seed + 1, kConfidentLogits));
  generator_.emplace(ops, *target_, &*draft_);
}

template <class T>
std::int64_t DecodingPair<T>::positions() const {
  std::int64_t own = 0;  // the draft's; 0: as many as the target's
  if (draft_) {
    own = draft_->shape().max_position;
  } else if (draft_model_) {
    own = draft_model_->shape().max_position;
  }
  return own > 0 ? std::min(own, target_->shape().max_position) : target_->shape().max_position;
}

template class DecodingPair<double>;
template class DecodingPair<float>;
template class DecodingPair<Bf16>;

}  // namespace versieve::engine
