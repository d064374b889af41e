// The networks that Carillon includes.
//
// Parameter counts are for ten classes, unless stated. Errors: usage (the network does not support the image shape; the
// message states what it requires).
#pragma once

#include "carillon/models/network.h"

namespace carillon {

/// 784-500-10: the reference's fully connected network for MNIST. 397,510 parameters.
Network mnist_network(const NetworkSettings& settings);
/// A LeNet-5-style network for MNIST, with ReLU and max pooling. 1,663,370 parameters.
Network lenet_network(const NetworkSettings& settings);
/// A small VGG-style network with batch norm, for square images. 288,170 parameters for MNIST.
Network vgg7_network(const NetworkSettings& settings);
/// The network of TensorFlow's CIFAR-10 tutorial. 1,068,298 parameters.
Network cifar10_network(const NetworkSettings& settings);
/// ResNet-18 with ImageNet's stem (7x7, stride 2, max pooling), for colour images of at least 32 x 32 pixels, as in
/// torchvision. 11,689,512 parameters for 1000 classes.
Network resnet18_network(const NetworkSettings& settings);
/// ResNet-18 with a 3x3 stem and no first pooling, for CIFAR-10's small images, as in pytorch-cifar. It computes 15
/// times as much per image as resnet18. 11,173,962 parameters.
Network resnet18_cifar_network(const NetworkSettings& settings);
/// ResNet-50, v1.5, for colour images of at least 32 x 32 pixels. 25,557,032 parameters for 1000 classes.
Network resnet50_network(const NetworkSettings& settings);
/// airbench94, which reaches 94 % accuracy on CIFAR-10 within seconds on a GPU. 1,971,640 parameters.
Network airbench94_network(const NetworkSettings& settings);
/// airbench96, a larger version that reaches 96 %. 9,915,704 parameters.
Network airbench96_network(const NetworkSettings& settings);
/// ResNet-9, designed for fast training on CIFAR-10. 6,573,120 parameters.
Network resnet9_network(const NetworkSettings& settings);

}  // namespace carillon
