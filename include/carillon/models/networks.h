// The networks that Carillon includes.
//
// The parameter counts are for ten classes, unless the comment states another number. Errors: usage (the network does
// not support the image shape; the message states what it requires).
#pragma once

#include "carillon/models/network.h"

namespace carillon {

/// 784-500-10: the reference's fully connected network for MNIST. 397,510 parameters.
Network mnist_network(const NetworkSettings& settings);
/// Returns a LeNet-5-style network for MNIST, with ReLU and max pooling. It has 1,663,370 parameters.
Network lenet_network(const NetworkSettings& settings);
/// Returns a small VGG-style network with batch norm, for square images. With MNIST's images, it has 288,170
/// parameters.
Network vgg7_network(const NetworkSettings& settings);
/// Returns the network of TensorFlow's CIFAR-10 tutorial. It has 1,068,298 parameters.
Network cifar10_network(const NetworkSettings& settings);
/// ResNet-18 with ImageNet's stem (7x7, stride 2, max pooling), for colour images of at least 32 x 32 pixels, as in
/// torchvision. 11,689,512 parameters for 1000 classes.
Network resnet18_network(const NetworkSettings& settings);
/// ResNet-18 with a 3x3 stem and no first pooling, for CIFAR-10's small images, as in pytorch-cifar. For images of the
/// same size, it needs 15 times as many multiply-adds as resnet18. 11,173,962 parameters.
Network resnet18_cifar_network(const NetworkSettings& settings);
/// ResNet-34. Except for its depth, it is like resnet18. 21,797,672 parameters for 1000 classes.
Network resnet34_network(const NetworkSettings& settings);
/// ResNet-50, v1.5, for colour images of at least 32 x 32 pixels, as in torchvision. 25,557,032 parameters for 1000
/// classes.
Network resnet50_network(const NetworkSettings& settings);
/// ResNet-101. Except for its depth, it is like resnet50. 44,549,160 parameters for 1000 classes.
Network resnet101_network(const NetworkSettings& settings);
/// ResNet-152. Except for its depth, it is like resnet50. 60,192,808 parameters for 1000 classes.
Network resnet152_network(const NetworkSettings& settings);
/// ConvNeXt-T, for colour images of at least 32 x 32 pixels, as in timm. 28,589,128 parameters for 1000 classes.
Network convnext_tiny_network(const NetworkSettings& settings);
/// ConvNeXt-S. 50,223,688 parameters for 1000 classes.
Network convnext_small_network(const NetworkSettings& settings);
/// ConvNeXt-B. 88,591,464 parameters for 1000 classes.
Network convnext_base_network(const NetworkSettings& settings);
/// ViT-Ti/16, a vision transformer for colour images with sides that are multiples of 16, as in timm. 5,717,416
/// parameters for 1000 classes at 224 x 224.
Network vit_tiny_patch16_224_network(const NetworkSettings& settings);
/// ViT-S/16. 22,050,664 parameters for 1000 classes at 224 x 224.
Network vit_small_patch16_224_network(const NetworkSettings& settings);
/// ViT-B/16. 86,567,656 parameters for 1000 classes at 224 x 224.
Network vit_base_patch16_224_network(const NetworkSettings& settings);
/// ViT-Ti/4, for small images such as CIFAR-10's, with sides that are multiples of 4. 5,362,762 parameters at 32 x 32.
Network vit_tiny_patch4_32_network(const NetworkSettings& settings);
/// airbench94, which reaches 94 % accuracy on CIFAR-10 within seconds on a GPU. 1,971,640 parameters.
Network airbench94_network(const NetworkSettings& settings);
/// airbench96, a larger version of airbench94 that reaches 96 % accuracy. 9,915,704 parameters.
Network airbench96_network(const NetworkSettings& settings);
/// ResNet-9, designed for fast training on CIFAR-10. 6,573,120 parameters.
Network resnet9_network(const NetworkSettings& settings);

}  // namespace carillon
