#include "engine/measure/door/judge.h"

#include <string_view>

#include "engine/measure/door/family.h"
#include "engine/measure/door/judges.h"
#include "engine/measure/door/paged_keys.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

struct Judge {
  const DoorFamily* family;
  Judgement (*judge)(DoorInput& input, DoorInput& answers, const DoorRequest& request);
};

constexpr Judge kJudges[] = {{&kTopkDoor, judge_topk},
                             {&kNsaVerifyDoor, judge_nsa_verify},
                             {&kSpecSampleDoor, judge_spec_sample},
                             {&kTreeSampleDoor, judge_tree_sample}};

const Judge& judge_of(const DoorFamily& family) {
  for (const Judge& judge : kJudges) {
    if (judge.family == &family) {
      return judge;
    }
  }
  throw Error(ExitCode::kUsage, std::string("--judge knows topk, nsa_verify, spec_sample and "
                                            "tree_sample, not ") +
                                    family.name);
}

SafetensorsFile input_file(const DoorRequest& request) {
  SafetensorsFile file = SafetensorsFile::read(request.in);
  return takes_pages(*request.family) ? with_contiguous_keys(std::move(file), *request.family)
                                      : file;
}

}  // namespace

const char* name_of(JudgedAs verdict) {
  switch (verdict) {
    case JudgedAs::kExact:
      return "exact";
    case JudgedAs::kTiesOnly:
      return "ties only";
    case JudgedAs::kFits:
      return "fits";
    case JudgedAs::kUndecided:
      return "undecided";
    case JudgedAs::kWrong:
      break;
  }
  return "wrong";
}

Judgement judge_answers(const DoorRequest& request, const std::filesystem::path& against) {
  const Judge& judge = judge_of(*request.family);
  if (request.backend != DoorBackend::kCpu) {
    throw Error(ExitCode::kUsage, "--judge computes on the CPU: leave --backend cuda out");
  }
  DoorInput input(input_file(request));
  DoorInput answers(SafetensorsFile::read(against));
  Judgement out = judge.judge(input, answers, request);
  out.json["family"] = request.family->name;
  out.json["variant"] = request.variant;
  out.json["dtype"] = kernels::name_of(request.dtype);
  out.json["verdict"] = name_of(out.verdict);
  out.json["sentence"] = out.sentence;
  return out;
}

}  // namespace versieve::engine
