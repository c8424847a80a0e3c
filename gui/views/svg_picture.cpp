#include "gui/views/svg_picture.h"

#include <QBuffer>
#include <QFontInfo>
#include <QPaintEngine>
#include <QPainterPath>
#include <QPixmap>

namespace versieve::gui {
namespace {

constexpr int kDotsPerInch = 96;

QString number(double value) {
  QString text = QString::number(value, 'f', 2);
  while (text.endsWith('0')) {
    text.chop(1);
  }
  return text.endsWith('.') ? text.chopped(1) : text;
}

QString path_data(const QPainterPath& path) {
  QString data;
  for (int i = 0; i < path.elementCount(); ++i) {
    const QPainterPath::Element& e = path.elementAt(i);
    const char letter = e.isMoveTo() ? 'M' : e.isLineTo() ? 'L' : e.isCurveTo() ? 'C' : ' ';
    data += letter + number(e.x) + ' ' + number(e.y);
  }
  return data;
}

QString paint(const char* what, const QColor& color) {
  return QString(" %1=\"%2\" %1-opacity=\"%3\"").arg(what, color.name(), number(color.alphaF()));
}

// A gradient, of which a style makes little, is told by its last colour.
QColor plain(const QBrush& brush) {
  return brush.gradient() != nullptr && !brush.gradient()->stops().isEmpty()
             ? brush.gradient()->stops().last().second
             : brush.color();
}

}  // namespace

class SvgEngine : public QPaintEngine {
 public:
  explicit SvgEngine(const QSize& size) : QPaintEngine(AllFeatures), size_(size) {}

  bool begin(QPaintDevice*) override { return true; }
  bool end() override { return true; }
  Type type() const override { return User; }
  void updateState(const QPaintEngineState& state) override;
  void drawPath(const QPainterPath& path) override;
  void drawPolygon(const QPointF* points, int count, PolygonDrawMode mode) override;
  void drawPixmap(const QRectF& to, const QPixmap& pixmap, const QRectF& from) override;
  void drawTextItem(const QPointF& at, const QTextItem& text) override;

  const QString& body() const { return body_; }

 private:
  QString common() const;  // transform, opacity and clip of the state
  QString style() const;   // and pen and brush

  QSize size_;
  QString body_;
  QPen pen_;
  QBrush brush_;
  QTransform transform_;
  double opacity_ = 1.0;
  QString clip_;  // attribute of it
  int clips_ = 0;
};

void SvgEngine::updateState(const QPaintEngineState& now) {
  const DirtyFlags dirty = now.state();
  pen_ = now.pen();
  brush_ = now.brush();
  transform_ = now.transform();
  opacity_ = now.opacity();
  if (dirty & (DirtyClipPath | DirtyClipRegion | DirtyClipEnabled)) {
    clip_.clear();
    const QRectF bounds(QPointF(0, 0), size_);
    const QRectF box = painter()->hasClipping()
                           ? transform_.mapRect(painter()->clipBoundingRect()) & bounds
                           : bounds;
    if (box != bounds) {
      const QString name = QString("clip%1").arg(++clips_);
      body_ += QString(
                   "<clipPath id=\"%1\"><rect x=\"%2\" y=\"%3\" width=\"%4\" height=\"%5\"/>"
                   "</clipPath>\n")
                   .arg(name, number(box.x()), number(box.y()), number(box.width()),
                        number(box.height()));
      clip_ = " clip-path=\"url(#" + name + ")\"";
    }
  }
}

// The clip is in the picture's coordinates, so that it stands outside the transform.
QString SvgEngine::common() const {
  QString text;
  if (!transform_.isIdentity()) {
    text += QString(" transform=\"matrix(%1 %2 %3 %4 %5 %6)\"")
                .arg(number(transform_.m11()), number(transform_.m12()), number(transform_.m21()),
                     number(transform_.m22()), number(transform_.dx()), number(transform_.dy()));
  }
  return opacity_ < 1.0 ? text + " opacity=\"" + number(opacity_) + "\"" : text;
}

QString SvgEngine::style() const {
  QString text = common();
  text += brush_.style() == Qt::NoBrush ? QString(" fill=\"none\"") : paint("fill", plain(brush_));
  if (pen_.style() != Qt::NoPen) {
    const double width = pen_.widthF() > 0.0 ? pen_.widthF() : 1.0;
    text += paint("stroke", pen_.color()) + " stroke-width=\"" + number(width) + "\"";
    QStringList dashes;
    for (const double dash : pen_.dashPattern()) {
      dashes << number(dash * width);
    }
    if (!dashes.isEmpty()) {
      text += " stroke-dasharray=\"" + dashes.join(' ') + "\"";
    }
  }
  return text;
}

void SvgEngine::drawPath(const QPainterPath& path) {
  body_ += "<g" + clip_ + "><path d=\"" + path_data(path) + "\"" + style() +
           (path.fillRule() == Qt::OddEvenFill ? " fill-rule=\"evenodd\"" : "") + "/></g>\n";
}

void SvgEngine::drawPolygon(const QPointF* points, int count, PolygonDrawMode mode) {
  QPainterPath path(points[0]);
  for (int i = 1; i < count; ++i) {
    path.lineTo(points[i]);
  }
  if (mode != PolylineMode) {
    path.closeSubpath();
    return drawPath(path);
  }
  const QBrush kept = brush_;
  brush_ = Qt::NoBrush;
  drawPath(path);
  brush_ = kept;
}

void SvgEngine::drawPixmap(const QRectF& to, const QPixmap& pixmap, const QRectF& from) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  pixmap.copy(from.toAlignedRect()).save(&buffer, "PNG");
  body_ += QString(
               "<g%1><image x=\"%2\" y=\"%3\" width=\"%4\" height=\"%5\"%6 "
               "href=\"data:image/png;base64,%7\"/></g>\n")
               .arg(clip_, number(to.x()), number(to.y()), number(to.width()), number(to.height()),
                    common(), QString::fromLatin1(bytes.toBase64()));
}

void SvgEngine::drawTextItem(const QPointF& at, const QTextItem& text) {
  const QFont font = text.font();
  body_ += QString(
               "<g%1><text x=\"%2\" y=\"%3\"%4%5 font-family=\"%6, sans-serif\" "
               "font-size=\"%7\"%8 xml:space=\"preserve\">%9</text></g>\n")
               .arg(clip_, number(at.x()), number(at.y()), common(), paint("fill", pen_.color()),
                    font.family().toHtmlEscaped(), number(QFontInfo(font).pixelSize()),
                    font.bold() ? " font-weight=\"bold\"" : "", text.text().toHtmlEscaped());
}

SvgPicture::SvgPicture(const QSize& size)
    : size_(size), engine_(std::make_unique<SvgEngine>(size)) {}

SvgPicture::~SvgPicture() = default;

QPaintEngine* SvgPicture::paintEngine() const {
  return engine_.get();
}

int SvgPicture::metric(PaintDeviceMetric metric) const {
  switch (metric) {
    case PdmWidth:
      return size_.width();
    case PdmHeight:
      return size_.height();
    case PdmWidthMM:
      return qRound(size_.width() * 25.4 / kDotsPerInch);
    case PdmHeightMM:
      return qRound(size_.height() * 25.4 / kDotsPerInch);
    case PdmNumColors:
      return 1 << 24;
    case PdmDepth:
      return 32;
    case PdmDpiX:
    case PdmDpiY:
    case PdmPhysicalDpiX:
    case PdmPhysicalDpiY:
      return kDotsPerInch;
    case PdmDevicePixelRatio:
      return 1;
    case PdmDevicePixelRatioScaled:
      return qRound(devicePixelRatioFScale());
  }
  return 0;
}

QByteArray SvgPicture::file(const QString& title, const QString& description) const {
  const QString head =
      QString(
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
          "width=\"%1\" height=\"%2\" viewBox=\"0 0 %1 %2\">\n")
          .arg(size_.width())
          .arg(size_.height());
  return (head + "<title>" + title.toHtmlEscaped() + "</title>\n<desc>" +
          description.toHtmlEscaped() + "</desc>\n" + engine_->body() + "</svg>\n")
      .toUtf8();
}

}  // namespace versieve::gui
