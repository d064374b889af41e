// cifar10_train: trains a network on CIFAR-10; the default is that of TensorFlow's tutorial.
//
//   mpirun -np 2 cifar10_train --data 'data/cifar10/train-*' --train-dir runs/cifar10 --max-steps 100000
//   cifar10_train --config jobs/recipes/cifar10_2rank_cpu.cfg --eval-data 'data/cifar10/test-*' --eval-every 5000
#include "carillon/app/mains.h"

int main(int argc, char** argv) {
  return carillon::training_main("cifar10_train", carillon::cifar10_program(), argc, argv);
}
