#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/models/model.h"
#include "src/models/cifar10.h"
#include "src/models/lenet.h"
#include "src/models/mnist.h"

namespace carillon {

std::span<const Model> models() {
  static const RecordSchema mnist{
      .keys = {.image = "image_raw", .label = "label"}, .image_shape = {28, 28, 1}, .class_count = 10};
  static const RecordSchema cifar10{
      .keys = {.image = "image", .label = "label"}, .image_shape = {32, 32, 3}, .class_count = 10};
  static const std::array all{
      Model{"mnist", mnist, build_mnist},
      Model{"lenet", mnist, build_lenet},
      Model{"cifar10", cifar10, build_cifar10, SummaryStyle::layers, make_planar_decoder},
  };
  return all;
}

const Model& model_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Model& model : models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  fail(ExitCode::usage, "there is no model '{}'; there are: {}", name, fmt::join(names, ", "));
}

}  // namespace carillon
