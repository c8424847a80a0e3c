// A widget's picture as SVG: what it paints, as shapes and texts; pixmaps that it keeps as images.
// A paint device of our own, since Qt's is in a module that nothing else here needs.
#pragma once

#include <QPaintDevice>
#include <QSize>
#include <QString>
#include <memory>

namespace versieve::gui {

class SvgEngine;

class SvgPicture : public QPaintDevice {
 public:
  explicit SvgPicture(const QSize& size);
  ~SvgPicture() override;

  // The whole file; `description` stands in it as its desc. After all painters have ended.
  QByteArray file(const QString& title, const QString& description) const;
  QPaintEngine* paintEngine() const override;

 protected:
  int metric(PaintDeviceMetric metric) const override;

 private:
  QSize size_;
  std::unique_ptr<SvgEngine> engine_;
};

}  // namespace versieve::gui
