// What test classes of the app begin with: a made-up database, or a window on one that ships.
#pragma once

#include <QDir>
#include <memory>

#include "tests/gui/window_case.h"

namespace versieve::gui {

// Their paths in the folder.
inline QString made_up_sweep_in(const QTemporaryDir& folder) {
  const QString path = folder.filePath("sweep.db");
  test::write_made_up_sweep(path.toStdString());
  return path;
}
inline QString synthetic_campaign_in(const QTemporaryDir& folder) {
  const QString path = folder.filePath("campaign.db");
  write_synthetic_campaign(path, true);
  return path;
}

// A window that has opened a copy of it by its name in the folder, which is the current one then;
// none where that did not work.
inline std::unique_ptr<Window> window_on_shipped(const QString& name, const QTemporaryDir& folder) {
  if (!copy_shipped(name, folder) || !QDir::setCurrent(folder.path())) {
    return nullptr;
  }
  auto window = std::make_unique<Window>();
  window->resize(1280, 860);
  window->show();
  return open(*window, name) ? std::move(window) : nullptr;
}

}  // namespace versieve::gui
