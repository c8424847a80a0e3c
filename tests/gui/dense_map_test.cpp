// The sensitivity page of dense targets on the shipped database: its winners are those of `versieve
// plan` on the same machines, whatever drafts for the target.
#include <QComboBox>
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QPushButton>
#include <QSlider>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <cmath>
#include <memory>
#include <set>

#include "engine/io/formatted.h"
#include "gui/models/machine_bench.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/sensitivity/sensitivity_page.h"
#include "gui/views/theme.h"
#include "tests/gui/budget.h"
#include "tests/gui/run_command.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::gui;

class DenseMapTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  SensitivityPage& page() { return window_->sensitivityPage(); }
  Planner& planner() { return window_->plannerPage().planner(); }
  bool answered() {
    const SensitivityPtr& answer = page().model().answer();
    return answer && !page().model().isBusy() && !planner().isBusy() &&
           answer->question.plan == planner().plan();
  }
  void plan_for(const QString& model) {
    planner().setModel(model.toStdString());
    QTRY_VERIFY_WITH_TIMEOUT(
        answered() && planner().plan()->basis->model == model.toStdString() &&
            page().bucket().count() == static_cast<int>(planner().plan()->chosen.buckets.size()),
        kWaitMs);
  }
  // The first of a cell of the table that the command writes.
  QJsonObject commanded(const QString& model, double terabytes_per_s, const QString& precision,
                        int bucket) {
    const QString out = folder_.filePath("commanded.json");
    const QString bandwidth = QString::fromStdString(engine::exact_decimal(terabytes_per_s));
    const QString wrong =
        run_command(QString("versieve plan --db %1 --model %2 --bandwidth %3 --class %4 --out %5")
                        .arg(folder_.filePath("h100.db"), model, bandwidth, precision, out));
    if (!wrong.isEmpty()) {
      qWarning("%s", qPrintable(wrong));
    }
    const QJsonObject table = QJsonDocument::fromJson(bytes_of(out)).object();
    for (const QJsonValue& entry : table["entries"].toArray()) {
      if (entry["rank"].toInt() == 1 && entry["bucket"].toInt() == bucket) {
        return entry.toObject();
      }
    }
    return {};
  }
  void is_the_commands(const QString& model, const Winner& winner, double terabytes_per_s,
                       const QString& precision) {
    const SensitivityPtr answer = page().model().answer();
    const QJsonObject first = commanded(model, terabytes_per_s, precision, answer->question.bucket);
    QVERIFY(!first.isEmpty());
    QVERIFY(winner.strategy >= 0);
    const Strategy& strategy = answer->strategies[static_cast<std::size_t>(winner.strategy)];
    QCOMPARE(QString::fromStdString(strategy.text()), first["strategy"].toString());
    QVERIFY2(std::fabs(winner.rate / first["throughput"].toDouble() - 1.0) < 1e-6,
             qPrintable(QString::number(winner.rate)));
  }

  // The bars alone: every knob's ends, from nothing that is kept.
  void rank_bars_in_time() {
    const SensitivityPtr answer = page().model().answer();
    const double begin = process_ms();
    MachineBench bench(answer->question);
    std::vector<Situation> ends = {bench.own()};
    for (int knob = 0; knob < kKnobCount; ++knob) {
      for (const double factor : {1.0 / kTornadoReach, kTornadoReach}) {
        Situation end = bench.own();
        end.machine = turned(end.machine, static_cast<Knob>(knob), factor);
        ends.push_back(end);
      }
    }
    bench.find_candidates(ends);
    std::vector<double> rates;
    for (const Situation& end : ends) {
      rates.push_back(bench.winner_in(end).rate);
    }
    const double ms = process_ms() - begin;
    QVERIFY(within("bars of a dense target ranked anew", ms, 200.0));
    QVERIFY(std::fabs(rates.front() / answer->own.rate - 1.0) < 1e-9);
  }
  // A dense model of that size, of which nothing but its size is known.
  void write_shape(const QString& name, int hidden, int layers, int heads, int kv_heads) {
    QVERIFY(QDir(folder_.path()).mkpath(name));
    QFile file(folder_.filePath(name + "/config.json"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(QString(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "hidden_size": %1, "intermediate_size": %2, "num_hidden_layers": %3,
      "num_attention_heads": %4, "num_key_value_heads": %5, "head_dim": 64, "vocab_size": 49152,
      "max_position_embeddings": 16384, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "hidden_act": "silu",
      "bos_token_id": 1, "eos_token_id": 2})")
                   .arg(hidden)
                   .arg(4 * hidden)
                   .arg(layers)
                   .arg(heads)
                   .arg(kv_heads)
                   .toUtf8());
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    QVERIFY(copy_shipped("h100.db", folder_));
    QVERIFY(QDir::setCurrent(folder_.path()));  // names in pictures are short, then
    test::TinyModel dense;
    dense.target.attention = AttentionKind::kDense;
    dense.target.layers = 4;
    const auto path_of = [&](const char* name) { return folder_.filePath(name).toStdString(); };
    test::write_tiny_dense_pair(path_of("model"), dense, 3);
    test::write_tiny_pair(path_of("head"), dense);
    test::write_tiny_target(path_of("bare"), dense);
    write_shape("big", 2048, 16, 32, 8);
    write_shape("big/draft", 576, 6, 9, 3);
    window_ = std::make_unique<Window>();
    window_->resize(1280, 800);
    window_->show();
    QVERIFY(open(*window_, "h100.db"));
    window_->showPage("sensitivity");
    QTRY_VERIFY_WITH_TIMEOUT(answered(), kWaitMs);
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void winnersAreTheCommandsOnEachMachine_data() {
    QTest::addColumn<QString>("model");
    QTest::addColumn<bool>("drafts");
    QTest::newRow("a model of its size alone") << folder_.filePath("big") << true;
    QTest::newRow("a draft model") << folder_.filePath("model") << true;
    QTest::newRow("a head") << folder_.filePath("head") << true;
    QTest::newRow("no draft") << folder_.filePath("bare") << false;
  }
  void winnersAreTheCommandsOnEachMachine() {
    QFETCH(QString, model);
    QFETCH(bool, drafts);
    plan_for(model);
    const SensitivityPtr answer = page().model().answer();
    const Sensitivity& s = *answer;
    QCOMPARE(s.tornado.size(), static_cast<std::size_t>(kKnobCount));
    QCOMPARE(s.map.size(), static_cast<std::size_t>(kMapSide * kMapSide));
    std::set<int> winners;
    for (const Winner& winner : s.map) {
      QVERIFY(winner.strategy >= 0 && winner.rate > 0.0);
      winners.insert(winner.strategy);
    }
    QVERIFY(drafts || winners.size() == 1);
    QVERIFY(page().map().machinesShown().contains("h200-sxm"));
    QVERIFY(!page().borders().text().isEmpty());
    const int middle = own_place(Knob::kSms, s.situation);
    for (const int column : {0, 21, 40, kMapSide - 1}) {
      is_the_commands(model, s.at(column, middle), s.x[static_cast<std::size_t>(column)], "Strict");
    }
    for (const TornadoRow& row : s.tornado) {
      if (row.knob == Knob::kBandwidth) {
        is_the_commands(model, row.low, row.low_value, "Strict");
        is_the_commands(model, row.high, row.high_value, "Strict");
      }
    }
  }

  void classesAndRangesOfADenseTargetAreMappedToo() {
    plan_for(folder_.filePath("big"));
    QComboBox& classes = page().precision();
    QCOMPARE(classes.count(), 4);
    QVERIFY(classes.findText("Reuse-only") < 0);
    for (const PrecisionClass precision :
         {PrecisionClass::kSparseRectified, PrecisionClass::kSparse}) {
      classes.setCurrentIndex(classes.findData(static_cast<int>(precision)));
      page().bucket().setCurrentIndex(1);
      QTRY_VERIFY_WITH_TIMEOUT(answered() &&
                                   page().model().answer()->question.precision == precision &&
                                   page().model().answer()->question.bucket == 1,
                               kWaitMs);
      const SensitivityPtr answer = page().model().answer();
      const Sensitivity& s = *answer;
      is_the_commands(folder_.filePath("big"), s.at(10, own_place(Knob::kSms, s.situation)),
                      s.x[10], name_of(precision));
    }
    // Contexts and requests are axes too.
    classes.setCurrentIndex(0);
    page().x().setCurrentIndex(page().x().findData(static_cast<int>(Knob::kContext)));
    page().y().setCurrentIndex(page().y().findData(static_cast<int>(Knob::kRequests)));
    QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.y == Knob::kRequests,
                             kWaitMs);
    QVERIFY(page().model().answer()->at(0, 0).strategy >= 0);
    page().x().setCurrentIndex(page().x().findData(static_cast<int>(Knob::kBandwidth)));
    page().y().setCurrentIndex(page().y().findData(static_cast<int>(Knob::kSms)));
    // A sparse target has its own classes again.
    plan_for("nsa-1b");
    QTRY_COMPARE_WITH_TIMEOUT(classes.count(), 5, kWaitMs);
  }

  // A turn of a slider ranks the bars and the map anew.
  void aMapIsMadeInTime() {
    for (const char* name : {"big", "model", "head"}) {
      const QString model = folder_.filePath(name);
      plan_for(model);
      const double begin = process_ms();
      QElapsedTimer clock;
      clock.start();
      page().slider(Knob::kBandwidth).setValue(page().slider(Knob::kBandwidth).value() + 5);
      QTRY_VERIFY_WITH_TIMEOUT(answered() && page().model().answer()->question.isTurned(), kWaitMs);
      const double ms = process_ms() - begin;
      qInfo("%lld ms by the clock", static_cast<long long>(clock.elapsed()));
      QVERIFY(within("bars and a map of 65 x 65 machines of a dense target", ms, 1000.0));
      rank_bars_in_time();
      keep_picture(*window_, QString("dense-map-") + name);
      window_->findChild<QPushButton*>("asPlanned")->click();
      QTRY_VERIFY_WITH_TIMEOUT(answered() && !page().model().answer()->question.isTurned(),
                               kWaitMs);
    }
  }
};

VERSIEVE_GUI_TEST(DenseMapTest)
#include "dense_map_test.moc"
