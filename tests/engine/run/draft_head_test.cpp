// Does the draft head compute what EAGLE-3's equations say, in both forms of its residual and with
// either embedding? One entry: attention over its own key is its value.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/io/checkpoint.h"
#include "engine/run/model/load.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {
namespace {

using Vector = std::vector<double>;

class PlainHead {
 public:
  PlainHead(const DraftCheckpoint& draft, const Checkpoint& target)
      : draft_(draft), target_(target) {}

  // Of an entry with that token whose captured streams are `captured` [3 * hidden].
  Vector logits(std::int32_t token, const Vector& captured, bool norm_before_residual) const {
    const bool own = draft_.weights.has("embed_tokens.weight");
    const Vector table = own ? of("embed_tokens.weight")
                             : target_.weights.values<double>("model.embed_tokens.weight");
    const std::ptrdiff_t width = draft_.shape.hidden;
    const Vector embedded(table.begin() + token * width, table.begin() + (token + 1) * width);
    const Vector feature = times("fc.weight", captured);
    const Vector hidden = normed(feature, "midlayer.hidden_norm.weight");
    Vector input = normed(embedded, "midlayer.input_layernorm.weight");
    input.insert(input.end(), hidden.begin(), hidden.end());
    const Vector value = times("midlayer.self_attn.v_proj.weight", input);
    Vector attended;
    for (std::int64_t h = 0; h < draft_.shape.num_heads; ++h) {
      const std::ptrdiff_t g = h * draft_.shape.num_kv_heads / draft_.shape.num_heads;
      attended.insert(attended.end(), value.begin() + g * draft_.shape.head_dim,
                      value.begin() + (g + 1) * draft_.shape.head_dim);
    }
    const Vector stream = sum(norm_before_residual ? hidden : feature,
                              times("midlayer.self_attn.o_proj.weight", attended));
    const Vector x = normed(stream, "midlayer.post_attention_layernorm.weight");
    Vector gated = times("midlayer.mlp.gate_proj.weight", x);
    const Vector up = times("midlayer.mlp.up_proj.weight", x);
    for (std::size_t i = 0; i < gated.size(); ++i) {
      gated[i] *= up[i] / (1.0 + std::exp(-gated[i]));
    }
    return times(output_rows(),
                 normed(sum(stream, times("midlayer.mlp.down_proj.weight", gated)), "norm.weight"));
  }

 private:
  Vector of(const char* name) const { return draft_.weights.values<double>(name); }
  // Without rows of its own, the target's of the tokens that it proposes.
  Vector output_rows() const {
    if (draft_.weights.has("lm_head.weight")) {
      return of("lm_head.weight");
    }
    const Vector all = target_.weights.values<double>(
        target_.shape.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
    Vector rows;
    for (std::int64_t i = 0; i < draft_.shape.vocab; ++i) {
      const std::int64_t token =
          i + (draft_.d2t.empty() ? 0 : draft_.d2t[static_cast<std::size_t>(i)]);
      rows.insert(rows.end(), all.begin() + token * draft_.shape.hidden,
                  all.begin() + (token + 1) * draft_.shape.hidden);
    }
    return rows;
  }
  Vector times(const char* name, const Vector& x) const { return times(of(name), x); }
  static Vector times(const Vector& w, const Vector& x) {
    Vector y(w.size() / x.size(), 0.0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      y[i / x.size()] += w[i] * x[i % x.size()];
    }
    return y;
  }
  Vector normed(const Vector& x, const char* name) const {
    double squares = 0.0;
    for (const double value : x) {
      squares += value * value;
    }
    const double scale =
        1.0 / std::sqrt(squares / static_cast<double>(x.size()) + draft_.shape.norm_eps);
    Vector y = of(name);
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] *= x[i] * scale;
    }
    return y;
  }
  static Vector sum(Vector a, const Vector& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] += b[i];
    }
    return a;
  }

  const DraftCheckpoint& draft_;
  const Checkpoint& target_;
};

TEST_CASE("a draft head's entry is that of its equations") {
  const test::TempFolder folder;
  const test::TinyModel model;
  write_tiny_pair(folder.path(), model);
  const Checkpoint checkpoint = load_target(folder.path());
  const auto ops = kernels::make_cpu_ops<double>(1);
  Vector captured(static_cast<std::size_t>(3 * model.target.hidden));
  for (std::size_t i = 0; i < captured.size(); ++i) {
    captured[i] = std::sin(static_cast<double>(i * i));
  }
  const kernels::OpsBuffer<double> device_captured(*ops, captured);
  Vector seen;  // a logit of each form: none is another's
  for (const bool own_embedding : {false, true}) {
    if (own_embedding) {
      TensorSet set = tiny_draft_weights(model);
      Vector table(static_cast<std::size_t>(model.target.vocab * model.target.hidden));
      for (std::size_t i = 0; i < table.size(); ++i) {
        table[i] = std::cos(static_cast<double>(i));
      }
      set.tensors["embed_tokens.weight"] =
          tensor_of(table, {model.target.vocab, model.target.hidden});
      write_safetensors(folder / "draft/model.safetensors", set);
    }
    for (const bool norm_before_residual : {false, true}) {
      CAPTURE(own_embedding, norm_before_residual);
      DraftCheckpoint head = load_draft(folder / "draft", checkpoint.shape);
      head.shape.norm_before_residual = norm_before_residual;
      const Target<double> target = make_target<double>(*ops, checkpoint, &head);
      Draft<double> draft = make_draft<double>(*ops, head, target);
      const std::int32_t token[] = {7};
      const std::int32_t row[] = {0};
      draft.extend(1, token, device_captured.data(), row, true);
      const Vector expected =
          PlainHead(head, checkpoint).logits(token[0], captured, norm_before_residual);
      REQUIRE(static_cast<std::int64_t>(expected.size()) == head.shape.vocab);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(draft.logits()[i] == Approx(expected[i]).epsilon(1e-9).margin(1e-9));
      }
      for (const double other : seen) {
        CHECK(std::abs(other - expected[0]) > 1e-3);
      }
      seen.push_back(expected[0]);
    }
  }
}

TEST_CASE("a draft head without output rows proposes by the target's") {
  for (const bool tied : {true, false}) {
    for (const std::int64_t vocab : {272, 100}) {
      CAPTURE(tied, vocab);
      const test::TempFolder folder;
      test::TinyModel model;
      model.target.tied_embeddings = tied;
      model.draft.vocab = vocab;
      write_tiny_pair(folder.path(), model);
      TensorSet set = tiny_draft_weights(model);
      set.tensors.erase("lm_head.weight");
      write_safetensors(folder / "draft/model.safetensors", set);
      const Checkpoint checkpoint = load_target(folder.path());
      const DraftCheckpoint head = load_draft(folder / "draft", checkpoint.shape);
      const auto ops = kernels::make_cpu_ops<double>(1);
      const Target<double> target = make_target<double>(*ops, checkpoint, &head);
      Draft<double> draft = make_draft<double>(*ops, head, target);
      const Vector captured(static_cast<std::size_t>(3 * model.target.hidden), 0.5);
      const kernels::OpsBuffer<double> device_captured(*ops, captured);
      const std::int32_t token[] = {9};
      const std::int32_t row[] = {0};
      draft.extend(1, token, device_captured.data(), row, true);
      const Vector expected = PlainHead(head, checkpoint).logits(token[0], captured, false);
      REQUIRE(static_cast<std::int64_t>(expected.size()) == vocab);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(draft.logits()[i] == Approx(expected[i]).epsilon(1e-9).margin(1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace versieve::engine
