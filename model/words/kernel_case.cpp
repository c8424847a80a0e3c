#include "model/words/kernel_case.h"

#include <charconv>
#include <cmath>

#include "model/words/error.h"

namespace versieve {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& form) {
  throw Error(ExitCode::kUsage,
              "kernel '" + std::string(text) + "' is not of the canonical form " + form);
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) {
    return false;
  }
  text.remove_prefix(word.size());
  return true;
}

template <class Number>
bool take_number(std::string_view& text, std::string_view word, Number& value) {
  if (!take(text, word)) {
    return false;
  }
  const std::from_chars_result read =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return true;
}

std::string shortest(double value) {
  char buffer[32];
  const std::to_chars_result written =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  return {buffer, written.ptr};
}

constexpr const char* kTopkForm =
    "topk:sort|radix|gvr/k<number>[/hint<share>][/index<heads>x<size>], the hint for gvr";
constexpr std::int64_t kMostIndexHeads = 1024;  // and the largest size of one
constexpr const char* kSamplingForm =
    "sampling:baseline|exact|sigmoid/chain|k<width>/r<samples>[/b<sequences>][/topk<number>]"
    "[/topp<share>][/minp<share>], sigmoid and sequences for chains";
constexpr const char* kMachineForm = "machine:copy|launch/c<kernels>|gemm/k<number>m<number>";

}  // namespace

TopkCase TopkCase::parse(std::string_view text) {
  std::string_view rest = text;
  TopkCase c;
  bool named = take(rest, "topk:");
  for (const TopkAlgorithm a : {TopkAlgorithm::kSort, TopkAlgorithm::kRadix, TopkAlgorithm::kGvr}) {
    if (named && take(rest, name_of(a))) {
      c.algorithm = a;
      named = take_number(rest, "/k", c.k) && c.k >= 1;
      break;
    }
  }
  double hint = 0.0;
  if (named && take_number(rest, "/hint", hint)) {
    named = std::isfinite(hint) && hint >= 0.0 && hint <= 1.0 && c.algorithm == TopkAlgorithm::kGvr;
    c.hint = hint;
  }
  IndexHeads index;
  if (named && take_number(rest, "/index", index.heads)) {
    named = take_number(rest, "x", index.dim) && index.heads >= 1 && index.dim >= 1 &&
            index.heads <= kMostIndexHeads && index.dim <= kMostIndexHeads;
    c.index = index;
  }
  if (!named || c.text() != text) {
    refuse(text, kTopkForm);
  }
  return c;
}

std::string TopkCase::text() const {
  std::string out = std::string("topk:") + name_of(algorithm) + "/k" + std::to_string(k);
  if (hint) {
    out += "/hint" + shortest(*hint);
  }
  if (index) {
    out += "/index" + std::to_string(index->heads) + "x" + std::to_string(index->dim);
  }
  return out;
}

SamplingCase SamplingCase::parse(std::string_view text) {
  std::string_view rest = text;
  SamplingCase c;
  bool named = take(rest, "sampling:");
  for (const SamplingAlgorithm a :
       {SamplingAlgorithm::kBaseline, SamplingAlgorithm::kExact, SamplingAlgorithm::kSigmoid}) {
    if (named && take(rest, name_of(a))) {
      c.algorithm = a;
      break;
    }
  }
  const bool chain = take(rest, "/chain");
  named = named && (chain || (take_number(rest, "/k", c.width) && c.width >= 1 &&
                              c.algorithm != SamplingAlgorithm::kSigmoid));
  named = named && take_number(rest, "/r", c.samples) && c.samples >= 1;
  if (named && take_number(rest, "/b", c.batch)) {
    named = c.batch >= 1 && c.width == 0;
  }
  if (named && take_number(rest, "/topk", c.top_k)) {
    named = c.top_k >= 1;
  }
  if (named && take_number(rest, "/topp", c.top_p)) {
    named = c.top_p > 0.0 && c.top_p < 1.0;
  }
  if (named && take_number(rest, "/minp", c.min_p)) {
    named = c.min_p > 0.0 && c.min_p <= 1.0;
  }
  if (!named || c.text() != text) {
    refuse(text, kSamplingForm);
  }
  return c;
}

std::string SamplingCase::text() const {
  return std::string("sampling:") + name_of(algorithm) +
         (width == 0 ? std::string("/chain") : "/k" + std::to_string(width)) + "/r" +
         std::to_string(samples) + (batch > 1 ? "/b" + std::to_string(batch) : "") +
         (top_k > 0 ? "/topk" + std::to_string(top_k) : "") +
         (top_p < 1.0 ? "/topp" + shortest(top_p) : "") +
         (min_p > 0.0 ? "/minp" + shortest(min_p) : "");
}

MachineCase MachineCase::parse(std::string_view text) {
  std::string_view rest = text;
  MachineCase c;
  bool named = take(rest, "machine:");
  if (named && take(rest, "launch")) {
    c.work = MachineWork::kLaunch;
    named = take_number(rest, "/c", c.launches) && c.launches >= 1;
  } else if (named && take(rest, "gemm")) {
    c.work = MachineWork::kGemm;
    named = take_number(rest, "/k", c.k) && take_number(rest, "m", c.m) && c.k >= 1 && c.m >= 1;
  }
  if (!named || c.text() != text) {
    refuse(text, kMachineForm);
  }
  return c;
}

std::string MachineCase::text() const {
  switch (work) {
    case MachineWork::kCopy:
      return "machine:copy";
    case MachineWork::kLaunch:
      return "machine:launch/c" + std::to_string(launches);
    case MachineWork::kGemm:
      break;
  }
  return "machine:gemm/k" + std::to_string(k) + "m" + std::to_string(m);
}

}  // namespace versieve
