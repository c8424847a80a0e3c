// What to do when no database is open: what this window is for, why the last file did not open, and
// the ways in.
#pragma once

#include <QWidget>

class QLabel;
class QPushButton;

namespace versieve::gui {

class StartPage : public QWidget {
  Q_OBJECT
 public:
  explicit StartPage(QWidget* parent = nullptr);

  void showWelcome();
  void showLoading(const QString& path);
  void showFailure(const QString& path, const QString& sentence);

 Q_SIGNALS:
  void openRequested();
  void shippedRequested(const QString& path);
  void measureRequested();

 private:
  QLabel* title_;
  QLabel* text_;
  QPushButton* shipped_;
};

}  // namespace versieve::gui
