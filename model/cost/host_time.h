// What the host adds to a step of many requests.
#pragma once

namespace versieve {

// Of a device that runs for `device_us`: a soft maximum of that and of what the host enqueues
// beside it, as of a launch's limits, less the device's own; and what the host does while that
// waits.
double host_beside_us(double enqueue_us, double host_us, double device_us);

}  // namespace versieve
