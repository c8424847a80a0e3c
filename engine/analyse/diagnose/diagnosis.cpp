#include "engine/analyse/diagnose/diagnosis.h"

#include <algorithm>

#include "engine/analyse/diagnose/rules.h"

namespace versieve::engine {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFault:
      return "fault";
    case Verdict::kLoss:
      return "loss";
    case Verdict::kNote:
      return "note";
    case Verdict::kFine:
      return "fine";
    case Verdict::kNotJudged:
      return "not judged";
  }
  return "";
}

std::vector<Finding> diagnose(const DiagnosisInput& input) {
  std::vector<Finding> findings = {
      first_token(input),     later_tokens(input), draft_length(input),
      long_context(input),    step_cost(input),    tree_against_chain(input),
      batch_crossover(input), changed_text(input), certain_acceptance(input)};
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.verdict < b.verdict; });
  return findings;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    const std::string head = std::string(name_of(f.verdict)) + ", " + f.rule + ": ";
    text += head + f.sentence + "." + (f.advice.empty() ? "" : " " + f.advice + ".") + "\n";
  }
  return text;
}

}  // namespace versieve::engine
