// The networks that the programs train, made for their data sets.
#pragma once

#include <vector>

#include "src/models/networks.h"

namespace carillon::testing {

inline NetworkSettings mnist_images(NetworkSettings settings = {}) {
  settings.image = {.height = 28, .width = 28, .channels = 1};
  settings.class_count = 10;
  return settings;
}

inline NetworkSettings cifar10_images(NetworkSettings settings = {}) {
  settings.image = {.height = 32, .width = 32, .channels = 3};
  settings.class_count = 10;
  return settings;
}

inline std::vector<Network> all_networks() {
  return {mnist_network(mnist_images()), lenet_network(mnist_images()), cifar10_network(cifar10_images())};
}

}  // namespace carillon::testing
