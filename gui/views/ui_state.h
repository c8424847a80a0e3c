// All that a user may set, each under an id, as data: what undo brings back and sessions keep.
#pragma once

#include <QJsonObject>
#include <QObject>
#include <QString>
#include <functional>
#include <vector>

class QWidget;

namespace versieve::gui {

// Of a widget that shows what is set elsewhere: it is no state of its own.
inline constexpr char kFollowsProperty[] = "versieveFollows";

class UiState {
 public:
  struct Knob {
    QString id;
    QString title;  // "Filter", of what is undone
    std::function<QJsonValue()> read;
    // False where it cannot be taken (yet).
    std::function<bool(const QJsonValue&)> write;
    bool is_undone = true;
  };

  void add(Knob knob);
  // Choices, sliders, numbers and switches below `root`, by their object's or accessible names.
  void addWidgets(const QString& page, QWidget& root);

  QJsonObject read() const;
  QJsonObject readUndone() const;  // of the knobs that undo brings back
  // Sets what differs, in the order of the knobs. What cannot be taken yet waits for retry(): a
  // choice whose list a worker still makes.
  void write(const QJsonObject& values);
  void retry();
  void forgetWaiting() { waiting_ = {}; }
  QString titleOf(const QString& id) const;

 private:
  std::vector<Knob> knobs_;
  QJsonObject waiting_;
};

}  // namespace versieve::gui
