// The networks, a file each.
#pragma once

#include "carillon/models/network.h"

namespace carillon {

/// 784-500-10: the reference's fully connected network for MNIST. 397,510 parameters.
Network mnist_network(const NetworkSettings& settings);
/// A LeNet-5-style network for MNIST, with ReLU and max pooling. 1,663,370 parameters.
Network lenet_network(const NetworkSettings& settings);
/// A small network of VGG's kind with batch norm, for square images. 288,170 parameters for MNIST.
Network vgg7_network(const NetworkSettings& settings);
/// The CIFAR-10 tutorial's network. 1,068,298 parameters.
Network cifar10_network(const NetworkSettings& settings);
/// ResNet-18 for small colour images. 11,173,962 parameters.
Network resnet18_network(const NetworkSettings& settings);
/// ResNet-50, v1.5, for colour images of any size. 25,557,032 parameters for 1000 classes.
Network resnet50_network(const NetworkSettings& settings);
/// airbench94, with which CIFAR-10 is trained to 0.94 in seconds on a GPU. 1,971,640 parameters.
Network airbench94_network(const NetworkSettings& settings);
/// airbench96, its larger brother, to 0.96. 9,915,704 parameters.
Network airbench96_network(const NetworkSettings& settings);
/// ResNet-9, with which CIFAR-10 was trained in minutes. 6,573,120 parameters.
Network resnet9_network(const NetworkSettings& settings);

}  // namespace carillon
