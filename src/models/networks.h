// The networks, a file each.
#pragma once

#include "carillon/models/network.h"

namespace carillon {

/// 784-500-10: the reference's fully connected network for MNIST. 397,510 parameters.
Network mnist_network(const NetworkSettings& settings);
/// A LeNet-5-style network for MNIST, with ReLU and max pooling. 1,663,370 parameters.
Network lenet_network(const NetworkSettings& settings);
/// The CIFAR-10 tutorial's network. 1,068,298 parameters.
Network cifar10_network(const NetworkSettings& settings);

}  // namespace carillon
