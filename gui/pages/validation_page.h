// How well does the cost model predict what it has not seen? The report of `versieve fit --report`,
// from the same code: errors, what intervals hold, coverage map, the worst points; predicted
// against measured and residuals by axis; errors system by system. The fit is the planner's.
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "gui/models/planner.h"
#include "gui/views/report_plot.h"
#include "gui/views/system_errors.h"

class QGridLayout;
class QStackedWidget;
class QTextBrowser;

namespace versieve::gui {

class FitWait;

class ValidationPage : public QWidget {
  Q_OBJECT
 public:
  explicit ValidationPage(Planner& planner, QWidget* parent = nullptr);

  const std::vector<ReportPlot*>& plots() const { return plots_; }
  SystemErrors& systems() { return *systems_; }
  QTextBrowser& tables() { return *tables_; }

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void show_fit();
  void show_tables();
  void show_plots(const engine::FitReport& fit);

  Planner& planner_;
  std::shared_ptr<const engine::FitReport> shown_;
  QStackedWidget* stack_;
  FitWait* wait_;
  QTextBrowser* tables_;
  SystemErrors* systems_;
  QGridLayout* grid_;
  std::vector<ReportPlot*> plots_;
};

}  // namespace versieve::gui
