// Controls by themselves: that they are seen in all colours, and what a cut sentence shows.
#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSlider>
#include <QTest>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/views/contrast.h"
#include "gui/views/elided_text.h"
#include "gui/views/theme.h"
#include "tests/gui/test_main.h"

using namespace versieve::gui;

namespace {

bool has_ink(const QImage& picture, const QRect& where) {
  for (int y = where.top(); y <= where.bottom(); ++y) {
    for (int x = where.left(); x <= where.right(); ++x) {
      if (theme::contrast(picture.pixelColor(x, y), theme::colors().page) > 3.0) {
        return true;
      }
    }
  }
  return false;
}

// The most that a pixel of these stands out of both what lies around a control and what lies in it.
double standing_out(const QImage& picture, int left, int right, int row) {
  double most = 0.0;
  for (int x = left; x <= right; ++x) {
    const QColor pixel = picture.pixelColor(x, row);
    most = std::max(most, std::min(theme::contrast(pixel, theme::colors().page),
                                   theme::contrast(pixel, theme::colors().panel)));
  }
  return most;
}

}  // namespace

class ControlsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { theme::apply(*qApp); }

  // WCAG 1.4.11: what shows where a control is has three times the lightness of what lies around.
  void controlsStandOutInAllColours() {
    for (const bool is_high : {false, true}) {
      for (const theme::Shade shade : {theme::Shade::kLight, theme::Shade::kDark}) {
        theme::raise_contrast(is_high);
        theme::apply(*qApp, shade);
        QWidget page;
        QVBoxLayout layout(&page);
        QSlider* slider = new QSlider(Qt::Horizontal);
        QProgressBar* bar = new QProgressBar;
        bar->setValue(50);
        QToolButton* tool = new QToolButton;
        tool->setText("More");
        for (QWidget* control : std::initializer_list<QWidget*>{
                 new QPushButton("Export"), tool, new QLineEdit, new QComboBox, new QDoubleSpinBox,
                 new QCheckBox("log"), bar, slider}) {
          layout.addWidget(control);
        }
        page.resize(300, 400);
        const QImage picture = page.grab().toImage();
        for (const QWidget* control : page.findChildren<QWidget*>(Qt::FindDirectChildrenOnly)) {
          const QRect at = control->geometry();
          const bool is_slider = control == slider;  // whose groove goes on beyond its knob
          const double out =
              standing_out(picture, is_slider ? at.right() - 40 : at.left(),
                           is_slider ? at.right() - 20 : at.left() + 2, at.center().y());
          QVERIFY2(out >= 3.0,
                   qPrintable(QString("%1: %2").arg(control->metaObject()->className()).arg(out)));
        }
      }
    }
    theme::raise_contrast(false);
  }

  // What did not fit was a tool tip's alone: neither a key nor a finger opens one.
  void aSentenceThatIsCutIsShownWhollyByAKeyOrAClick() {
    QWidget page;
    ElidedText text(2, &page);
    text.setFont(qApp->font());
    text.setText("Short.");
    text.resize(300, text.sizeHint().height());
    page.resize(320, 200);
    page.show();
    QVERIFY(!text.isCut() && text.focusPolicy() == Qt::NoFocus);
    const int low = text.sizeHint().height();
    text.setText(QString("Step times come from a fit to measured points. ").repeated(6));
    QVERIFY(text.isCut() && text.focusPolicy() == Qt::TabFocus);
    QCOMPARE(text.sizeHint().height(), low);
    QTest::keyClick(&text, Qt::Key_Space);
    QVERIFY(text.showsAll());
    const int high = text.sizeHint().height();
    QVERIFY(high > 2 * low);
    text.resize(300, high);
    const QImage all = text.grab().toImage();
    QVERIFY(has_ink(
        all, QRect(0, high - text.fontMetrics().lineSpacing(), 60, text.fontMetrics().xHeight())));
    QTest::mouseClick(&text, Qt::LeftButton);
    QVERIFY(!text.showsAll());
    QCOMPARE(text.sizeHint().height(), low);
    text.setText("Short.");
    QVERIFY(!text.isCut() && text.focusPolicy() == Qt::NoFocus);
  }
};

VERSIEVE_GUI_TEST(ControlsTest)
#include "controls_test.moc"
