#include "gui/views/flat_style.h"

#include <QPainter>
#include <QStyleFactory>
#include <QStyleOption>
#include <QTableView>
#include <algorithm>
#include <cmath>

#include "gui/views/contrast.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kEdge = 1;
constexpr double kFocusEdge = 1.8;
constexpr double kRound = 3.0;
constexpr int kTabAside = 36, kTabAbove = 18;  // left and right together, above and below
constexpr int kTabMark = 2;
constexpr QMargins kTabFocus{8, 5, 8, 5};
constexpr QMargins kHeader{6, 7, 6, 6};
constexpr QMargins kLine{6, 4, 6, 4};
constexpr int kPushAside = 30, kPushAbove = 14, kToolAside = 18, kToolAbove = 10;
constexpr int kCheckBox = 13;
constexpr double kArrowReach = 2.2;
constexpr double kGroove = 4.0, kKnob = 6.0;
constexpr int kTipFrame = 5;

bool has(const QStyleOption& option, QStyle::StateFlag flag) {
  return option.state.testFlag(flag);
}

// Pale where it cannot be used.
QColor resting_color(bool is_enabled) {
  return is_enabled ? theme::colors().edge : theme::colors().line;
}

// Of what can be pressed or typed into: thicker where keys go.
QPen edge_of(const QStyleOption& option) {
  const bool has_focus = has(option, QStyle::State_HasFocus);
  const bool is_meant = has_focus || has(option, QStyle::State_MouseOver);
  const bool is_enabled = has(option, QStyle::State_Enabled);
  return {is_enabled && is_meant ? theme::colors().accent : resting_color(is_enabled),
          has_focus ? kFocusEdge : kEdge};
}

void draw_box(QPainter& painter, const QRect& rect, const QPen& edge, const QBrush& ground,
              double round = kRound) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(edge);
  painter.setBrush(ground);
  painter.drawRoundedRect(QRectF(rect).adjusted(0.5, 0.5, -0.5, -0.5), round, round);
  painter.restore();
}

void draw_check(QPainter& painter, const QStyleOption& option) {
  const theme::Colors& c = theme::colors();
  const bool is_on = has(option, QStyle::State_On);
  const QColor edge = is_on ? c.accent : c.quiet_ink;
  draw_box(painter, option.rect, edge, is_on ? c.accent : c.panel, kRound - 1.0);
  if (is_on) {
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    painter.translate(option.rect.topLeft());
    painter.setPen(QPen(c.panel, kFocusEdge));
    painter.drawPolyline(QPolygonF{QPointF(3, 6.8), QPointF(5.4, 9.2), QPointF(10, 4)});
    painter.restore();
  }
}

// The one that is shown wears a line, and a box where keys go to it.
void draw_tab_shape(QPainter& painter, const QStyleOptionTab& tab) {
  if (has(tab, QStyle::State_HasFocus) && has(tab, QStyle::State_KeyboardFocusChange)) {
    draw_box(painter, tab.rect.marginsRemoved(kTabFocus), theme::colors().accent, Qt::NoBrush);
  }
  if (has(tab, QStyle::State_Selected)) {
    painter.fillRect(tab.rect.adjusted(0, tab.rect.height() - kTabMark, 0, 0),
                     theme::colors().accent);
  }
}

QColor tab_ink(const QStyleOptionTab& tab) {
  const theme::Colors& c = theme::colors();
  if (!has(tab, QStyle::State_Enabled)) {
    return c.faint;
  }
  if (!has(tab, QStyle::State_Selected)) {
    return c.quiet_ink;
  }
  return has(tab, QStyle::State_HasFocus) ? c.accent : c.ink;
}

// Of a choice, of a number's steps, of a scroll bar's ends.
void draw_arrow(QPainter& painter, const QRect& rect, Qt::ArrowType to, bool is_enabled) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.translate(QRectF(rect).center());
  painter.rotate(to == Qt::DownArrow    ? 180.0
                 : to == Qt::LeftArrow  ? -90.0
                 : to == Qt::RightArrow ? 90.0
                                        : 0.0);
  painter.setPen(Qt::NoPen);
  painter.setBrush(is_enabled ? theme::colors().quiet_ink : theme::colors().faint);
  painter.drawConvexPolygon(QPolygonF{QPointF(-2 * kArrowReach, kArrowReach),
                                      QPointF(2 * kArrowReach, kArrowReach),
                                      QPointF(0, -kArrowReach)});
  painter.restore();
}

// The ring of views/focus_ring.h shows where keys go.
QPen resting_edge(const QStyleOption& option) {
  const bool is_enabled = has(option, QStyle::State_Enabled);
  const bool is_meant = is_enabled && has(option, QStyle::State_MouseOver);
  return {is_meant ? theme::colors().accent : resting_color(is_enabled), kEdge};
}

void draw_choice(const QStyle& style, const QStyleOptionComboBox& box, QPainter& painter,
                 const QWidget* widget) {
  draw_box(painter, box.rect, resting_edge(box), theme::colors().panel);
  draw_arrow(painter,
             style.subControlRect(QStyle::CC_ComboBox, &box, QStyle::SC_ComboBoxArrow, widget),
             Qt::DownArrow, has(box, QStyle::State_Enabled));
}

void draw_number(const QStyle& style, const QStyleOptionSpinBox& box, QPainter& painter,
                 const QWidget* widget) {
  draw_box(painter, box.rect, resting_edge(box), theme::colors().panel);
  const bool is_enabled = has(box, QStyle::State_Enabled);
  for (const bool is_up : {true, false}) {
    const auto part = is_up ? QStyle::SC_SpinBoxUp : QStyle::SC_SpinBoxDown;
    const auto step = is_up ? QAbstractSpinBox::StepUpEnabled : QAbstractSpinBox::StepDownEnabled;
    draw_arrow(painter, style.subControlRect(QStyle::CC_SpinBox, &box, part, widget),
               is_up ? Qt::UpArrow : Qt::DownArrow, is_enabled && box.stepEnabled.testFlag(step));
  }
}

void draw_slider(const QStyle& style, const QStyleOptionSlider& slider, QPainter& painter,
                 const QWidget* widget) {
  const theme::Colors& c = theme::colors();
  const auto part = [&](QStyle::SubControl of) {
    return QRectF(style.subControlRect(QStyle::CC_Slider, &slider, of, widget));
  };
  const bool is_enabled = has(slider, QStyle::State_Enabled);
  const QPointF knob = part(QStyle::SC_SliderHandle).center();
  QRectF groove = part(QStyle::SC_SliderGroove);
  groove = QRectF(groove.left(), knob.y() - kGroove / 2, groove.width(), kGroove);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(resting_color(is_enabled));
  painter.drawRect(groove.adjusted(0, kGroove / 4, 0, -kGroove / 4));
  painter.setBrush(is_enabled ? c.accent : c.faint);
  QRectF before = groove;
  before.setRight(knob.x());
  painter.drawRoundedRect(before, kGroove / 2, kGroove / 2);
  const bool is_meant = is_enabled && has(slider, QStyle::State_MouseOver);
  painter.setPen(QPen(is_meant ? c.accent : is_enabled ? c.quiet_ink : c.faint, kFocusEdge));
  painter.setBrush(c.panel);
  painter.drawEllipse(knob, kKnob, kKnob);
  painter.restore();
}

void draw_scroll_bar(const QStyle& style, const QStyleOptionSlider& bar, QPainter& painter,
                     const QWidget* widget) {
  const auto part = [&](QStyle::SubControl of) {
    return style.subControlRect(QStyle::CC_ScrollBar, &bar, of, widget);
  };
  const bool is_flat = bar.orientation == Qt::Horizontal;
  const QColor grip = theme::colors().edge;
  painter.fillRect(bar.rect, theme::colors().page);
  draw_arrow(painter, part(QStyle::SC_ScrollBarSubLine), is_flat ? Qt::LeftArrow : Qt::UpArrow,
             bar.sliderValue > bar.minimum);
  draw_arrow(painter, part(QStyle::SC_ScrollBarAddLine), is_flat ? Qt::RightArrow : Qt::DownArrow,
             bar.sliderValue < bar.maximum);
  const QMargins aside = is_flat ? QMargins(1, 4, 1, 4) : QMargins(4, 1, 4, 1);
  draw_box(painter, part(QStyle::SC_ScrollBarSlider).marginsRemoved(aside), grip, grip);
}

// The text stands out on what is done as on what is not. Where nothing says how much there is
// Fusion shows that something goes on.
bool draw_progress(QStyle::ControlElement element, const QStyleOptionProgressBar& bar,
                   QPainter& painter) {
  const theme::Colors& c = theme::colors();
  const double all = static_cast<double>(bar.maximum) - bar.minimum;
  if (element == QStyle::CE_ProgressBarGroove) {
    draw_box(painter, bar.rect, c.edge, c.panel);
    return true;
  }
  if (all <= 0.0) {
    return element == QStyle::CE_ProgressBarLabel;
  }
  QRect done = bar.rect;
  done.setWidth(
      static_cast<int>(std::lround(bar.rect.width() * (bar.progress - bar.minimum) / all)));
  if (element == QStyle::CE_ProgressBarContents) {
    draw_box(painter, done, c.accent, c.accent);
    return true;
  }
  if (element != QStyle::CE_ProgressBarLabel) {
    return false;
  }
  for (const bool is_done : {true, false}) {
    painter.save();
    painter.setClipRect(is_done ? done : bar.rect.adjusted(done.width(), 0, 0, 0));
    painter.setPen(is_done ? theme::ink_on(c.accent) : c.ink);
    painter.drawText(bar.rect, Qt::AlignCenter, bar.text);
    painter.restore();
  }
  return true;
}

void draw_header_ground(QPainter& painter, const QRect& rect) {
  const theme::Colors& c = theme::colors();
  painter.fillRect(rect, c.page);
  painter.fillRect(rect.adjusted(0, rect.height() - kEdge, 0, 0), c.line);
}

template <typename Option>
Option quietly(const Option& option) {
  Option quiet = option;
  quiet.palette.setColor(QPalette::ButtonText, theme::colors().quiet_ink);
  return quiet;
}

}  // namespace

FlatStyle::FlatStyle() : QProxyStyle(QStyleFactory::create("Fusion")) {}

void FlatStyle::drawPrimitive(PrimitiveElement element, const QStyleOption* option,
                              QPainter* painter, const QWidget* widget) const {
  const theme::Colors& c = theme::colors();
  switch (element) {
    case PE_FrameStatusBarItem:
    case PE_IndicatorHeaderArrow:  // the title's own sign says how it is sorted
      return;
    case PE_PanelScrollAreaCorner:
      painter->fillRect(option->rect, c.page);
      return;
    case PE_PanelStatusBar:
    case PE_FrameTabWidget:
      painter->fillRect(QRect(option->rect.topLeft(), QSize(option->rect.width(), kEdge)), c.line);
      return;
    case PE_Frame:
      painter->setPen(c.line);
      painter->setBrush(Qt::NoBrush);
      painter->drawRect(option->rect.adjusted(0, 0, -1, -1));
      return;
    case PE_FrameTabBarBase:
      painter->fillRect(option->rect.adjusted(0, option->rect.height() - kEdge, 0, 0), c.line);
      return;
    case PE_PanelLineEdit:
      if (const auto* frame = qstyleoption_cast<const QStyleOptionFrame*>(option);
          frame != nullptr && frame->lineWidth > 0) {
        draw_box(*painter, option->rect, edge_of(*option), option->palette.base());
        return;
      }
      break;
    case PE_PanelButtonCommand:
      draw_box(*painter, option->rect, edge_of(*option), c.panel);
      return;
    case PE_PanelButtonTool:
      draw_box(*painter, option->rect, edge_of(*option),
               has(*option, State_On) ? QBrush(c.panel) : QBrush(Qt::NoBrush));
      return;
    case PE_FrameFocusRect:
      if (has(*option, State_KeyboardFocusChange)) {
        draw_box(*painter, option->rect, c.accent, Qt::NoBrush);
      }
      return;
    case PE_IndicatorCheckBox:
      draw_check(*painter, *option);
      return;
    case PE_PanelTipLabel:
      painter->fillRect(option->rect, c.panel);
      painter->setPen(c.line);
      painter->drawRect(option->rect.adjusted(0, 0, -1, -1));
      return;
    default:
      break;
  }
  QProxyStyle::drawPrimitive(element, option, painter, widget);
}

void FlatStyle::drawComplexControl(ComplexControl control, const QStyleOptionComplex* option,
                                   QPainter* painter, const QWidget* widget) const {
  if (const auto* choice = qstyleoption_cast<const QStyleOptionComboBox*>(option);
      choice != nullptr && control == CC_ComboBox && !choice->editable) {
    draw_choice(*proxy(), *choice, *painter, widget);
  } else if (const auto* number = qstyleoption_cast<const QStyleOptionSpinBox*>(option);
             number != nullptr && control == CC_SpinBox) {
    draw_number(*proxy(), *number, *painter, widget);
  } else if (const auto* slider = qstyleoption_cast<const QStyleOptionSlider*>(option);
             slider != nullptr && control == CC_Slider && slider->orientation == Qt::Horizontal) {
    draw_slider(*proxy(), *slider, *painter, widget);
  } else if (slider != nullptr && control == CC_ScrollBar) {
    draw_scroll_bar(*proxy(), *slider, *painter, widget);
  } else {
    QProxyStyle::drawComplexControl(control, option, painter, widget);
  }
}

void FlatStyle::drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                            const QWidget* widget) const {
  if (element == CE_Splitter) {
    return;
  }
  if (const auto* bar = qstyleoption_cast<const QStyleOptionProgressBar*>(option)) {
    if (!draw_progress(element, *bar, *painter)) {
      QStyleOptionProgressBar goes_on = *bar;
      goes_on.palette.setColor(QPalette::Highlight, theme::colors().accent);
      QProxyStyle::drawControl(element, &goes_on, painter, widget);
    }
    return;
  }
  if (element == CE_HeaderSection || element == CE_HeaderEmptyArea) {
    draw_header_ground(*painter, option->rect);
    return;
  }
  if (const auto* header = qstyleoption_cast<const QStyleOptionHeader*>(option);
      header != nullptr && element == CE_Header) {
    draw_header_ground(*painter, header->rect);
    QStyleOptionHeader label = quietly(*header);
    label.rect = header->rect.marginsRemoved(kHeader);
    QProxyStyle::drawControl(CE_HeaderLabel, &label, painter, widget);
    return;
  }
  if (const auto* tab = qstyleoption_cast<const QStyleOptionTab*>(option)) {
    if (element == CE_TabBarTabShape) {
      draw_tab_shape(*painter, *tab);
      return;
    }
    if (element == CE_TabBarTabLabel) {
      painter->setPen(tab_ink(*tab));
      painter->drawText(tab->rect, Qt::AlignCenter | Qt::TextShowMnemonic, tab->text);
      return;
    }
  }
  if (const auto* button = qstyleoption_cast<const QStyleOptionToolButton*>(option);
      button != nullptr && element == CE_ToolButtonLabel && !button->text.isEmpty()) {
    QStyleOptionToolButton label = has(*option, State_On) ? *button : quietly(*button);
    label.rect.adjust(kToolAside / 2 - kEdge, 0, kEdge - kToolAside / 2, 0);
    QProxyStyle::drawControl(element, &label, painter, widget);
    return;
  }
  if (const auto* box = qstyleoption_cast<const QStyleOptionButton*>(option);
      box != nullptr && element == CE_CheckBoxLabel && has(*option, State_HasFocus)) {
    QStyleOptionButton meant = *box;
    meant.palette.setColor(QPalette::WindowText, theme::colors().accent);
    QProxyStyle::drawControl(element, &meant, painter, widget);
    return;
  }
  QProxyStyle::drawControl(element, option, painter, widget);
}

QSize FlatStyle::sizeFromContents(ContentsType type, const QStyleOption* option,
                                  const QSize& contents, const QWidget* widget) const {
  switch (type) {
    case CT_HeaderSection:
      if (const auto* header = qstyleoption_cast<const QStyleOptionHeader*>(option)) {
        return header->fontMetrics.size(0, header->text).grownBy(kHeader);
      }
      break;
    case CT_LineEdit:
      if (const auto* frame = qstyleoption_cast<const QStyleOptionFrame*>(option);
          frame != nullptr && frame->lineWidth > 0) {
        return contents.grownBy(kLine);
      }
      break;
    case CT_PushButton:
      return contents + QSize(kPushAside, kPushAbove);
    case CT_ToolButton:
      return contents + QSize(kToolAside, kToolAbove);
    case CT_CheckBox: {
      const int between = proxy()->pixelMetric(PM_CheckBoxLabelSpacing, option, widget);
      return {contents.width() + kCheckBox + between + 2 * kEdge,
              std::max(contents.height(), kCheckBox) + 2 * kEdge};
    }
    case CT_TabBarTab:
      return contents;  // PM_TabBarTabHSpace and PM_TabBarTabVSpace are in it
    default:
      break;
  }
  return QProxyStyle::sizeFromContents(type, option, contents, widget);
}

QRect FlatStyle::subElementRect(SubElement element, const QStyleOption* option,
                                const QWidget* widget) const {
  if (element == SE_LineEditContents) {
    if (const auto* frame = qstyleoption_cast<const QStyleOptionFrame*>(option);
        frame != nullptr && frame->lineWidth > 0) {
      return option->rect.adjusted(kLine.left(), kEdge, -kLine.right(), -kEdge);
    }
  }
  return QProxyStyle::subElementRect(element, option, widget);
}

int FlatStyle::pixelMetric(PixelMetric metric, const QStyleOption* option,
                           const QWidget* widget) const {
  switch (metric) {
    case PM_TabBarTabHSpace:
      return kTabAside;
    case PM_TabBarTabVSpace:
      return kTabAbove;
    case PM_TabBarTabOverlap:
    case PM_TabBarTabShiftVertical:
    case PM_TabBarTabShiftHorizontal:
    case PM_HeaderMarkSize:
    case PM_ButtonShiftHorizontal:
    case PM_ButtonShiftVertical:
      return 0;
    case PM_IndicatorWidth:
    case PM_IndicatorHeight:
      return kCheckBox;
    case PM_FocusFrameHMargin:  // of cells: they stand under their titles
      return qobject_cast<const QTableView*>(widget) != nullptr
                 ? kHeader.left() - 1
                 : QProxyStyle::pixelMetric(metric, option, widget);
    case PM_ToolTipLabelFrameWidth:
      return kTipFrame;
    default:
      return QProxyStyle::pixelMetric(metric, option, widget);
  }
}

}  // namespace versieve::gui
