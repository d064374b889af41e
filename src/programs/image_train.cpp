// image_train: trains a network on your own pictures.
//
//   tfrecord_convert images --input pictures --output data/pictures --validation-share 0.1
//   mpirun -np 4 image_train --data 'data/pictures/train-*' --eval-data 'data/pictures/validation-*' --train-dir
//   runs/pictures
#include "carillon/app/mains.h"

int main(int argc, char** argv) {
  return carillon::training_main("image_train", carillon::image_program(), argc, argv);
}
