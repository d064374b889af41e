#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/models/model.h"
#include "mnist.h"

namespace carillon {

std::span<const Model> models() {
  static const std::array all{
      Model{"mnist",
            {.image_key = "image_raw", .label_key = "label", .image_bytes = 784, .class_count = 10},
            build_mnist},
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
