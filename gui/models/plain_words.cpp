#include "gui/models/plain_words.h"

#include <QRegularExpression>
#include <QStringList>

#include "gui/models/numbers.h"
#include "model/words/error.h"
#include "model/words/kernel_case.h"

namespace versieve::gui {
namespace {

QString percent(double share) {
  return QString::number(100.0 * share, 'g', 3) + " %";
}

QString draft_in_words(const DraftChoice& draft) {
  if (!draft.speculates()) {
    return "one token a step, no draft";
  }
  if (draft.width == 1) {
    return QString("chain of %1 drafted tokens").arg(draft.nodes - 1);
  }
  return QString("draft tree of %1 nodes: depth %2, %3 children a node")
      .arg(draft.nodes)
      .arg(draft.depth)
      .arg(draft.width);
}

// Which blocks are attended, by what differs from the usual.
QString blocks_in_words(const Strategy& s) {
  QString text = QString("the best %1 of blocks of %2 tokens")
                     .arg(percent(s.resa_active_ratio))
                     .arg(s.resa_key_block);
  if (s.resa_n_min != kResaFewestBlocks) {
    text += QString(", at least %1").arg(s.resa_n_min);
  }
  if (s.resa_n_local != kResaLocalBlocks) {
    text += QString(", the %1 newest always").arg(s.resa_n_local);
  }
  return text;
}

QString attention_in_words(const Strategy& s) {
  switch (s.attention) {
    case AttentionMethod::kNsa:
      return "native sparse attention";
    case AttentionMethod::kDense:
      return "dense attention";
    case AttentionMethod::kResa:
      return "ReSA: " + blocks_in_words(s) + ", " +
             (s.resa_rectify_every > 0
                  ? QString("a dense pass every %1 tokens").arg(s.resa_rectify_every)
                  : QString("never rectified"));
    case AttentionMethod::kSpecAttn:
      return QString("SpecAttn: the tokens that carry %1 of the draft's attention")
          .arg(percent(s.specattn_p));
    case AttentionMethod::kIndexer:
      return QString("an indexer of the target's own keys: the %1 best tokens and the %2 newest")
          .arg(s.indexer_k)
          .arg(s.indexer_window);
  }
  return {};
}

QString group_in_words(const Strategy& s) {
  if (s.group_size <= 1) {
    return {};
  }
  return QString(s.group_mode == GroupMode::kExact ? "%1 neighbours share one pass, exactly"
                                                   : "%1 neighbours read one query's blocks")
      .arg(s.group_size);
}

QString schedule_in_words(const Strategy& s) {
  const QString schedule = QString::fromStdString(s.schedule);
  if (!schedule.contains('R')) {
    return {};
  }
  return "layers " + schedule + ": F selects blocks, R reuses those before";
}

QString options_in_words(const Strategy& s) {
  QStringList parts;
  if (s.topk) {
    parts << QString("top-k by %1").arg(name_of(*s.topk));
  }
  if (s.sampling) {
    parts << QString("%1 sampling").arg(name_of(*s.sampling));
  }
  if (s.drafts_itself) {
    parts << "drafted by the target's own steps over " + blocks_in_words(s);
  }
  if (s.adapts_length) {
    parts << "as many tokens drafted as steps accept, to that number";
  }
  if (s.form == NsaForm::kVanilla) {
    parts << "the baseline's five launches a layer";
  }
  return parts.join("; ");
}

QString strategy_in_words(const Strategy& s) {
  QStringList parts = {attention_in_words(s), draft_in_words(s.draft), group_in_words(s),
                       schedule_in_words(s), options_in_words(s)};
  parts.removeAll(QString());
  return parts.join("; ");
}

QString topk_in_words(const TopkCase& c) {
  const QString how = c.algorithm == TopkAlgorithm::kGvr     ? "by guess, verify, refine"
                      : c.algorithm == TopkAlgorithm::kRadix ? "by radix select"
                                                             : "by sorting";
  QString text = QString("the %1 largest scores of a row, exactly, %2").arg(c.k).arg(how);
  if (c.hint) {
    text += QString("; %1 of the hinted ones right").arg(percent(*c.hint));
  }
  if (c.index) {
    text += QString("; scores of an indexer with %1 heads of %2 first")
                .arg(c.index->heads)
                .arg(c.index->dim);
  }
  return text;
}

QString sampling_in_words(const SamplingCase& c) {
  const QString drafts =
      c.width == 0 ? QString("a chain") : QString("a tree of %1 children a node").arg(c.width);
  const QString law = c.algorithm == SamplingAlgorithm::kSigmoid
                          ? "approximate acceptance by sigmoids"
                      : c.algorithm == SamplingAlgorithm::kExact ? "exact acceptance, fused"
                                                                 : "exact acceptance, baseline";
  QString words = QString("%1 of %2, %3 sample%4")
                      .arg(law, drafts)
                      .arg(c.samples)
                      .arg(c.samples == 1 ? "" : "s");
  words += c.batch > 1 ? QString(" in each of %1 sequences").arg(c.batch) : QString();
  words += c.top_k > 0 ? QString(", top-k %1").arg(c.top_k) : QString();
  words += c.top_p < 1.0 ? QString(", top-p %1").arg(c.top_p) : QString();
  return words + (c.min_p > 0.0 ? QString(", min-p %1").arg(c.min_p) : QString());
}

QString machine_in_words(const MachineCase& c) {
  switch (c.work) {
    case MachineWork::kCopy:
      return "a copy: what memory or L2 gives";
    case MachineWork::kLaunch:
      return QString("%1 launches that do next to nothing").arg(c.launches);
    case MachineWork::kGemm:
      return QString("a matrix product with weights [%1, %2]").arg(c.k).arg(c.m);
  }
  return {};
}

}  // namespace

System system_of(const QString& text) {
  static constexpr const char* kWords[] = {"nsa",     "dense", "resa",     "specattn",
                                           "indexer", "topk",  "sampling", "machine"};
  int index = 0;
  for (const char* word : kWords) {
    if (text.startsWith(QLatin1String(word))) {
      return static_cast<System>(index);
    }
    ++index;
  }
  return System::kUnknown;
}

const char* short_name(System system) {
  switch (system) {
    case System::kNsa:
      return "NSA";
    case System::kDense:
      return "dense";
    case System::kResa:
      return "ReSA";
    case System::kSpecAttn:
      return "SpecAttn";
    case System::kIndexer:
      return "indexer";
    case System::kTopk:
      return "top-k";
    case System::kSampling:
      return "sampling";
    case System::kMachine:
      return "machine";
    case System::kUnknown:
      return "unknown";
  }
  return "";
}

QString name_in_words(System system) {
  switch (system) {
    case System::kNsa:
      return "NSA: sparse attention, draft trees";
    case System::kDense:
      return "Dense attention, as baseline";
    case System::kResa:
      return "ReSA: sparse decoding, rectified";
    case System::kSpecAttn:
      return "SpecAttn: tokens that the draft read";
    case System::kIndexer:
      return "Indexer: the tokens of the highest index scores";
    case System::kTopk:
      return "Exact top-k, alone";
    case System::kSampling:
      return "Speculative samplers, alone";
    case System::kMachine:
      return "The machine: copies, products, launches";
    case System::kUnknown:
      return "Unknown";
  }
  return {};
}

QString workload_in_words(WorkloadKind workload) {
  switch (workload) {
    case WorkloadKind::kAttention:
      return "attention of one NSA layer";
    case WorkloadKind::kStep:
      return "a whole step";
    case WorkloadKind::kAcceptance:
      return "accepted tokens on real text";
    case WorkloadKind::kDecode:
      return "attention of one layer over a dense cache";
    case WorkloadKind::kTopk:
      return "top-k kernel alone";
    case WorkloadKind::kSampling:
      return "sampler alone";
    case WorkloadKind::kMachine:
      return "what the machine gives";
    case WorkloadKind::kRectify:
      return "ReSA's dense pass over one layer's cache";
    case WorkloadKind::kRectifiedStep:
      return "a whole step with its share of the dense pass";
    case WorkloadKind::kBatch:
      return "a whole step of many requests";
  }
  return {};
}

QString length_name(WorkloadKind workload) {
  switch (workload) {
    case WorkloadKind::kTopk:
      return "scores a row";
    case WorkloadKind::kSampling:
      return "logits a row";
    case WorkloadKind::kMachine:
      return "KiB";
    case WorkloadKind::kAttention:
    case WorkloadKind::kStep:
    case WorkloadKind::kAcceptance:
    case WorkloadKind::kDecode:
    case WorkloadKind::kRectify:
    case WorkloadKind::kRectifiedStep:
    case WorkloadKind::kBatch:
      break;
  }
  return "context";
}

QString rows_name(WorkloadKind workload) {
  return workload == WorkloadKind::kTopk || workload == WorkloadKind::kSampling ||
                 workload == WorkloadKind::kMachine
             ? "rows"
             : "queries";
}

QString text_in_words(const std::string& text) {
  try {
    switch (system_of(QString::fromStdString(text))) {
      case System::kTopk:
        return topk_in_words(TopkCase::parse(text));
      case System::kSampling:
        return sampling_in_words(SamplingCase::parse(text));
      case System::kMachine:
        return machine_in_words(MachineCase::parse(text));
      case System::kNsa:
      case System::kDense:
      case System::kResa:
      case System::kSpecAttn:
      case System::kIndexer:
      case System::kUnknown:
        break;
    }
    return strategy_in_words(Strategy::parse(text));
  } catch (const Error&) {
    return {};  // of another version
  }
}

QString promise_of(PrecisionClass precision) {
  switch (precision) {
    case PrecisionClass::kStrict:
      return "the text of plain decoding";
    case PrecisionClass::kReuseOnly:
      return "that of the same schedule";
    case PrecisionClass::kApproxOnly:
      return "lossy: groups share blocks";
    case PrecisionClass::kApproxReuse:
      return "lossy: groups and layers share";
    case PrecisionClass::kSparseRectified:
      return "lossy: ReSA, cache kept exact";
    case PrecisionClass::kSparse:
      return "lossy: reads chosen tokens";
    case PrecisionClass::kApproxSampling:
      return "lossy: the draft's own text";
  }
  return {};
}

QString class_in_words(PrecisionClass precision) {
  return QString("%1: %2. Lost against plain decoding: %3")
      .arg(name_of(precision), promise_of(precision), loss_of(precision));
}

QString fitted_in_words(const std::string& name) {
  QStringList words = QString::fromStdString(name).split(' ');
  const QString kind = words.takeFirst();
  const QString rest = words.join(' ');
  if (kind == QLatin1String("decode")) {
    return QString("%1: one layer's attention").arg(short_name(system_of(rest)));
  }
  if (kind == QLatin1String("step")) {
    return QString("%1: a whole step").arg(short_name(system_of(rest)));
  }
  if (kind == QLatin1String("topk")) {
    return "Top-k: " + (rest == QLatin1String("gvr") ? QString("guess, verify, refine") : rest);
  }
  return kind == QLatin1String("sampling") ? QString("Sampler: %1").arg(rest)
                                           : QString::fromStdString(name);
}

QString compact(const QString& strategy) {
  static const QRegularExpression run("F{4,}|R{4,}");
  constexpr char16_t kSuperscripts[] =
      u"\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
  QString out;
  qsizetype done = 0;
  for (QRegularExpressionMatchIterator at = run.globalMatch(strategy); at.hasNext();) {
    const QRegularExpressionMatch match = at.next();
    out += strategy.mid(done, match.capturedStart() - done) + match.captured(0)[0];
    for (const QChar digit : QString::number(match.capturedLength())) {
      out += QChar(kSuperscripts[digit.digitValue()]);
    }
    done = match.capturedEnd();
  }
  return out + strategy.mid(done);
}

}  // namespace versieve::gui
